// Memory that nobody frees or points to: LeakSanitizer must report it.
#include <cstddef>

namespace {
char* volatile lost = nullptr;
}

int main(int argc, char**) {
  lost = new char[std::size_t(argc) * 1000];
  lost[0] = 1;
  lost = nullptr;
  return 0;
}
