#include "instruments/counters/proof.hpp"

#include "instruments/flush_lines.hpp"

namespace ioattn::instruments {
namespace {

// The compiler may not see a copy as memcpy: that streams past the cache when arrays are large.
void keep_order() { asm volatile("" ::: "memory"); }

constexpr index_t words_at_once = 8;

void read_pass(double* a, const double* b, const double*, index_t words) {
  double sum = 0;
  for (index_t i = 0; i < words; i += words_at_once) {
    for (index_t j = i; j < i + words_at_once; ++j) sum += b[j];
  }
  a[0] = sum;
}

void copy_pass(double* a, const double* b, const double*, index_t words) {
  for (index_t i = 0; i < words; i += words_at_once) {
    for (index_t j = i; j < i + words_at_once; ++j) a[j] = b[j];
    keep_order();
  }
}

void triad_pass(double* a, const double* b, const double* c, index_t words) {
  for (index_t i = 0; i < words; i += words_at_once) {
    for (index_t j = i; j < i + words_at_once; ++j) a[j] = b[j] + 3 * c[j];
    keep_order();
  }
}

}  // namespace

const std::vector<ProofKernel>& proof_kernels() {
  static const std::vector<ProofKernel> kernels = {
      {"read", "sum of b", 1, 0, read_pass},
      {"copy", "a = b", 2, 1, copy_pass},
      {"triad", "a = b + 3 c", 3, 1, triad_pass},
  };
  return kernels;
}

std::optional<double> ProofResult::ratio() const {
  if (!counted.lines || expected_lines <= 0) return std::nullopt;
  return *counted.lines / expected_lines;
}

bool ProofResult::agrees() const {
  if (counted.validity != Validity::exact) return false;
  if (expected_lines <= 0) return *counted.lines <= proof_idle * lines_in;
  const std::optional<double> quotient = ratio();
  return quotient && *quotient >= proof_least && *quotient <= proof_most;
}

std::vector<ProofResult> prove(PerfSystem* system, const EventFile& file,
                               const Surroundings& surroundings, const ProofSize& size) {
  const index_t words = size.words - size.words % words_at_once;
  const auto elements = static_cast<std::size_t>(words);
  std::vector<double> a(elements, 1), b(elements, 2), c(elements, 3);
  for (const std::vector<double>* array : {&a, &b, &c}) {
    flush_lines(array->data(), elements * sizeof(double));
  }
  const double lines_of_array =
      static_cast<double>(words) * sizeof(double) / size.line_bytes * size.passes;

  std::vector<ProofResult> results;
  for (const ProofKernel& kernel : proof_kernels()) {
    ThreadCounters counters(system, file.events, surroundings);
    kernel.pass(a.data(), b.data(), c.data(), words);  // what it finds in the cache is its own
    counters.start();
    for (int pass = 0; pass < size.passes; ++pass) {
      kernel.pass(a.data(), b.data(), c.data(), words);
    }
    counters.stop();
    for (QuantityValue& value : evaluate(file, counters.read())) {
      if (value.formula.empty()) continue;
      const int arrays = value.kind == CacheTraffic::fills ? kernel.arrays_in : kernel.arrays_back;
      if (arrays > 0) refuse_zero(&value);
      results.push_back(
          {&kernel, arrays * lines_of_array, std::move(value), kernel.arrays_in * lines_of_array});
    }
  }
  return results;
}

}  // namespace ioattn::instruments
