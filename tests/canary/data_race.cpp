// Threads of an OpenMP region that add to one word: ThreadSanitizer must report it. With the
// argument "ordered" each thread reads in a second region what its neighbour wrote in the first:
// the barrier between them orders the two, and a report would mean that ThreadSanitizer does not
// understand OpenMP.
#include <array>
#include <cstddef>
#include <cstring>

namespace {

constexpr int threads = 2;
using Words = std::array<long, threads>;

void add_to_one_word(Words& words) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int thread = 0; thread < threads; ++thread) {
    for (long i = 0; i < 1000; ++i) words[0] += i;
  }
}

void read_what_the_neighbour_wrote(Words& words) {
  Words read{};
  for (int round = 0; round < 50; ++round) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; ++thread) words[std::size_t(thread)] += round;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; ++thread) {
      read[std::size_t(thread)] += words[std::size_t(threads - 1 - thread)];
    }
  }
  words = read;
}

}  // namespace

int main(int argc, char** argv) {
  Words words{};
  if (argc > 1 && std::strcmp(argv[1], "ordered") == 0) {
    read_what_the_neighbour_wrote(words);
  } else {
    add_to_one_word(words);
  }
  return words[0] == 0 ? 1 : 0;
}
