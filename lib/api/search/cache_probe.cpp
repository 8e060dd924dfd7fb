#include "api/search/cache_probe.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "api/search/timed_threads.hpp"
#include "base/aligned_buffer.hpp"
#include "search/pointer_chase.hpp"

namespace ioattn::api {
namespace {

constexpr double access_time = 0.015, stream_time = 0.008;  // for all samples of a size, in seconds
// Others that have the CPU meanwhile leave other data in the caches: of short samples few meet
// them.
constexpr double shortest_sample = 5e-5;
constexpr index_t longest_chase = 4096;  // loads; a ring is followed to its end over several
constexpr index_t cols = 256;            // of the rows that a stream is read as

// Memory in huge pages where the system has them: small ones lie at random in a cache, and each
// takes a place in the buffers of addresses, which end as caches do.
class HugeBuffer {
 public:
  explicit HugeBuffer(index_t bytes) : bytes_(round_up(bytes, page)) {
    buffer_ = AlignedBuffer(static_cast<std::size_t>(bytes_ + page));
    if (buffer_.data() == nullptr) return;
    const auto address = reinterpret_cast<std::uintptr_t>(buffer_.data());
    data_ = static_cast<std::byte*>(buffer_.data()) + (page - address % page) % page;
    madvise(data_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);  // or it does without
  }
  std::byte* data() const { return data_; }

 private:
  static constexpr index_t page = index_t(2) << 20;
  index_t bytes_;
  AlignedBuffer buffer_;
  std::byte* data_ = nullptr;
};

class Probe {
 public:
  Probe(const kernels::Kernels& kernels, int threads, index_t most_bytes)
      : table_(*kernels.f32), threads_(threads), sums_(static_cast<std::size_t>(threads)) {
    for (int i = 0; i < threads; ++i) memory_.emplace_back(most_bytes);
  }
  bool has_memory() const {
    return std::all_of(memory_.begin(), memory_.end(),
                       [](const HugeBuffer& one) { return one.data() != nullptr; });
  }

  ProbedSize probe(index_t bytes) {
    std::vector<search::PointerRing> rings;
    for (const HugeBuffer& memory : memory_) rings.emplace_back(memory.data(), bytes);
    const index_t steps = std::min(rings[0].length(), longest_chase);
    auto warm = [&](int worker) {
      search::PointerRing& ring = rings[static_cast<std::size_t>(worker)];
      ring.chase(ring.length());
    };
    parallel::run(threads_, warm);
    const auto follow = [&](int worker) { rings[static_cast<std::size_t>(worker)].chase(steps); };
    const double chase =
        seconds_of_threads(threads_, {.seconds = access_time, .shortest = shortest_sample}, follow);
    const index_t rows = std::max<index_t>(bytes / (2 * cols * index_t(sizeof(float))), 1);
    for (int i = 0; i < threads_; ++i) {
      std::fill_n(floats(i), 2 * rows * cols, 0.5f);
      sums_[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(rows));
    }
    const auto read = [&](int worker) {
      const float* first = floats(worker);
      table_.row_dot(rows, cols, first, cols, first + rows * cols, cols,
                     sums_[static_cast<std::size_t>(worker)].data());
    };
    const double stream = seconds_of_threads(threads_, {.seconds = stream_time}, read);
    return {bytes, chase / static_cast<double>(steps),
            stream / static_cast<double>(2 * rows * cols)};
  }

 private:
  float* floats(int worker) const {
    return reinterpret_cast<float*>(memory_[static_cast<std::size_t>(worker)].data());
  }

  const kernels::KernelTable<float>& table_;
  int threads_;
  std::vector<HugeBuffer> memory_;
  std::vector<std::vector<float>> sums_;
};

}  // namespace

std::vector<index_t> probe_sizes(index_t first, index_t last) {
  constexpr index_t least = 1024, most = index_t(64) << 20;
  const index_t begin = std::clamp(first / 8, least, most);
  const index_t end = std::clamp(4 * last, begin, most);
  std::vector<index_t> sizes;
  for (int quarter = 0;; ++quarter) {
    const double size = static_cast<double>(begin) * std::exp2(0.25 * quarter);
    if (size > static_cast<double>(end) * 1.01) break;
    sizes.push_back(
        round_down(static_cast<index_t>(std::lround(size)), search::PointerRing::line_bytes));
  }
  return sizes;
}

std::vector<ProbedSize> probe_caches(const kernels::Kernels& kernels, int threads,
                                     const std::vector<index_t>& sizes) {
  std::vector<ProbedSize> points;
  if (sizes.empty()) return points;
  Probe probe(kernels, threads, *std::max_element(sizes.begin(), sizes.end()));
  if (!probe.has_memory()) return points;
  for (const index_t bytes : sizes) points.push_back(probe.probe(bytes));
  return points;
}

}  // namespace ioattn::api
