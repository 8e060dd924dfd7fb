#include "api/search/rates.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "api/planning/session.hpp"
#include "api/search/timed_threads.hpp"
#include "base/aligned_buffer.hpp"
#include "machine/machine.hpp"

namespace ioattn::api {
namespace {

constexpr double product_time = 0.04, stream_time = 0.15;  // for all samples of one, in seconds

bool has_pairs(const kernels::Kernels& kernels) {
  return kernels.of_bf16->pairs_of_bf16 != nullptr;
}

// Operands that take as much power as others.
template <class W>
constexpr W one_half = W(0.5);
template <>
constexpr kernels::bf16x2 one_half<kernels::bf16x2> = {0x3f003f00};

// A product as schedules have them: a block of rows by a few panels, sums of a whole block, in L2.
template <class T, class W>
double product_seconds(void (*product)(const kernels::Product<T, W>&), const TileShape& tile,
                       int threads, const kernels::PairKernels* pairs = nullptr) {
  constexpr index_t depth = 256, panels = 4;
  const index_t rows = index_t{16} * tile.rows, cols = panels * tile.cols;
  std::vector<std::vector<W>> operands;
  std::vector<std::vector<T>> results;
  for (int worker = 0; worker < threads; ++worker) {
    operands.emplace_back(static_cast<std::size_t>((rows + cols) * depth), one_half<W>);
    results.emplace_back(static_cast<std::size_t>(rows * cols), T(0));
  }
  const double seconds = seconds_of_threads(threads, {.seconds = product_time}, [&](int worker) {
    const kernels::PairRegion region(pairs);
    const W* a = operands[static_cast<std::size_t>(worker)].data();
    kernels::Product<T, W> p;
    p.rows = rows;
    p.cols = cols;
    p.depth = depth;
    p.a = {a, depth, 1};
    p.b = {a + rows * depth, depth * tile.cols, tile.cols};
    p.c = {results[static_cast<std::size_t>(worker)].data(), rows * tile.cols, tile.cols};
    p.accumulate = true;
    product(p);
  });
  const index_t terms = std::is_same_v<T, W> ? 1 : 2;
  return seconds / static_cast<double>(rows * cols * depth * terms);
}

double multiply_add_seconds(const kernels::Kernels& kernels, DType dtype, int threads) {
  if (dtype == DType::f64) {
    return product_seconds(kernels.f64->product, kernels.f64->tile, threads);
  }
  const kernels::KernelTable<float>& of_bf16 = *kernels.of_bf16;
  if (dtype == DType::bf16 && has_pairs(kernels)) {
    const kernels::PairKernels* pairs = of_bf16.pairs_of_bf16;
    return product_seconds(pairs->product, of_bf16.tile, threads, pairs);
  }
  return product_seconds(kernels.f32->product, kernels.f32->tile, threads);
}

// Two streams, as of keys and values, for each thread.
class Streams {
 public:
  Streams(const kernels::Kernels& kernels, int threads)
      : table_(*kernels.f32),
        threads_(threads),
        largest_(rows_of(bytes_past_L3() / threads)),
        memory_(static_cast<std::size_t>(index_t{2} * threads * largest_ * cols) * sizeof(float)),
        sums_(static_cast<std::size_t>(threads * largest_)) {
    if (memory_.data() != nullptr)
      std::fill_n(words(), index_t{2} * threads * largest_ * cols, 0.5f);
  }
  bool has_memory() const { return memory_.data() != nullptr; }

  // Measured when it is first asked for.
  double seconds_of_byte(bool from_L3) {
    double& known = seconds_of_byte_[from_L3 ? 1 : 0];
    if (known == 0) known = measure(from_L3);
    return known;
  }

 private:
  static constexpr index_t cols = 256;
  static constexpr index_t most_bytes = index_t(512) << 20;  // of all threads

  double measure(bool from_L3) {
    const index_t rows = from_L3 ? std::min(rows_of(bytes_in_L3()), largest_) : largest_;
    const double seconds = seconds_of_threads(threads_, {.seconds = stream_time}, [&](int worker) {
      const float* first = words() + index_t{2} * worker * largest_ * cols;
      float* sums = sums_.data() + worker * largest_;
      table_.row_dot(rows, cols, first, cols, first + rows * cols, cols, sums);
    });
    return seconds / static_cast<double>(2 * rows * cols * index_t(sizeof(float)));
  }
  static index_t rows_of(index_t bytes) {
    return std::max<index_t>(bytes / (2 * cols * index_t(sizeof(float))), 1);
  }
  static index_t bytes_of_L2() { return machine::this_machine().cache(2)->share_bytes; }
  // Of all threads: too much for any cache to keep.
  index_t bytes_past_L3() const {
    const machine::CacheLevel* L3 = machine::this_machine().cache(3);
    const index_t bytes =
        std::max(index_t{16} * threads_ * bytes_of_L2(), L3 ? 2 * L3->size_bytes : 0);
    return std::min(bytes, most_bytes);
  }
  // Of each thread: too much for L2, and what the planner would keep in L3; without one from
  // memory.
  index_t bytes_in_L3() const {
    const index_t outer = outer_fast_memory(DType::f32) * index_t(sizeof(float));
    return outer > 0 ? std::max(2 * bytes_of_L2(), outer / 2) : bytes_past_L3() / threads_;
  }
  float* words() const { return static_cast<float*>(memory_.data()); }

  const kernels::KernelTable<float>& table_;
  int threads_;
  index_t largest_;  // rows of a stream
  AlignedBuffer memory_;
  std::vector<float> sums_;
  double seconds_of_byte_[2] = {0, 0};
};

}  // namespace

RateMeter meter_of(const kernels::Kernels& kernels, int threads) {
  RateMeter meter;
  meter.threads = threads;
  const auto streams = std::make_shared<Streams>(kernels, threads);
  if (!streams->has_memory()) return meter;
  meter.byte = [streams](bool from_L3) { return streams->seconds_of_byte(from_L3); };
  meter.multiply_add = [&kernels, threads](DType dtype) {
    return multiply_add_seconds(kernels, dtype, threads);
  };
  return meter;
}

RateMeter meter_of(const kernels::Kernels& kernels, const RateMeter& bytes) {
  RateMeter meter = bytes;
  if (!bytes.multiply_add) return meter;
  meter.multiply_add = [&kernels, threads = bytes.threads](DType dtype) {
    return multiply_add_seconds(kernels, dtype, threads);
  };
  return meter;
}

// In 16 bits a word is so until it is in L2, where it is f32, or stays one of a pair.
void learn_rates(const kernels::Kernels& kernels, const RateMeter& meter, const std::string& date,
                 wisdom::Wisdom* wisdom) {
  if (!meter.byte || !meter.multiply_add) return;
  const double byte = meter.byte(false), inner_byte = meter.byte(true);
  const double f32 = meter.multiply_add(DType::f32);
  for (const DType dtype : types_of_rates) {
    const bool pairs = dtype == DType::bf16 && has_pairs(kernels);
    const bool own = dtype == DType::f64 || pairs;
    const index_t inner = is_half(dtype) && !pairs ? size_of(DType::f32) : size_of(dtype);
    wisdom::Rates rates;
    rates.multiply_adds = 1 / (own ? meter.multiply_add(dtype) : f32);
    rates.word_seconds = byte * static_cast<double>(size_of(dtype));
    rates.inner_word_seconds = inner_byte * static_cast<double>(inner);
    rates.threads = meter.threads;
    rates.date = date;
    if (!check(rates).is_ok()) continue;
    wisdom->keep_rates(environment_of(kernels.tile(dtype).isa), name_of(dtype), rates);
  }
}

bool knows_rates(const kernels::Kernels& kernels, const KnownWisdom& known) {
  return std::all_of(std::begin(types_of_rates), std::end(types_of_rates), [&](DType dtype) {
    const wisdom::Rates* rates =
        known.wisdom.rates_of(known.environment(kernels.tile(dtype).isa), name_of(dtype));
    return rates != nullptr && check(*rates).is_ok();
  });
}

}  // namespace ioattn::api
