// One write past the end of an allocation: AddressSanitizer must report it.
#include <cstddef>
#include <vector>

int main(int argc, char**) {
  std::vector<float> row(16);
  volatile float* data = row.data();
  const auto last = std::size_t(15 + argc);  // 16: unknown to the compiler
  data[last] = 1.0F;
  return 0;
}
