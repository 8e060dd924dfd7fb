// A product of sizes that leaves the range of int: UndefinedBehaviorSanitizer must report it.
#include <limits>

int main(int argc, char**) {
  const volatile int rows = std::numeric_limits<int>::max() - argc;
  const volatile int product = rows * (argc + 1);
  return product == 0 ? 1 : 0;
}
