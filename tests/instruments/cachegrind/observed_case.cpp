// One case, so many times, at addresses that every run has:
//   observed_case product|exp|gradient|sum|pack SHIFT REPETITIONS [simulate L1 WAYS L2
//   WAYS]
// Without `simulate` the kernels run, for Cachegrind to watch. With it they are traced, and the
// lines that two levels fetch are printed. SHIFT: bytes that the arrays begin after a line.

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "instruments/simulators/set_associative.hpp"
#include "instruments/simulators/tracing_kernels.hpp"
#include "kernels/product_order.hpp"

namespace {

using namespace ioattn;

[[noreturn]] void fail(const char* why) {
  std::printf("unavailable: %s\n", why);
  std::exit(3);
}

// The machine itself takes Valgrind a second to read.
bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// Memory at an address that no loader, stack or heap takes.
class Arena {
 public:
  explicit Arena(std::size_t shift) : shift_(shift) {
    void* const wanted = reinterpret_cast<void*>(std::uintptr_t{1} << 33);
    void* const got = mmap(wanted, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got != wanted) fail("the addresses are taken");
    next_ = static_cast<std::byte*>(got);
  }
  // On a line of its own, but for the shift.
  float* floats(index_t count) {
    auto* first = reinterpret_cast<float*>(bytes(count * index_t{sizeof(float)}) + shift_);
    std::uint32_t state = seed_++;
    for (index_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      first[i] = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
    }
    return first;
  }
  std::byte* bytes(index_t count) {
    std::byte* const first = next_;
    next_ += round_up(count + 64, index_t{64});
    return first;
  }

 private:
  static constexpr std::size_t size = std::size_t{64} << 20;
  std::size_t shift_;
  std::byte* next_ = nullptr;
  std::uint32_t seed_ = 1;
};

// What schedules make of tables: scores, gradients of them, sums over a tile, and
// packed panels. Operands are larger than both levels together.
enum class Kind : std::uint8_t { product, gradient, sum, pack };

class KernelCase {
 public:
  KernelCase(Kind kind, Arena* arena)
      : kind_(kind),
        rows_(kind == Kind::gradient ? 2 * fewest_rows : fewest_rows),
        a_(arena->floats(rows_ * depth)),
        b_(arena->floats(cols * depth)),
        c_(arena->floats(rows_ * cols)),
        shifts_(arena->floats(rows_)) {}
  void run(const kernels::Kernels& kernels) const {
    const index_t nr = kernels.f32->tile.cols;
    if (kind_ == Kind::pack) {
      kernels.f32->pack(b_, depth, 1, cols, depth, c_);
      return;
    }
    kernels::Product<float> p;
    p.rows = rows_;
    p.cols = cols;
    // Sums of more terms than are added at once wait for gradients on the stack, which is elsewhere
    // in every run.
    p.depth = kind_ == Kind::gradient ? kernels::terms_at_once<float, float, false> : depth;
    p.a = {a_, kind_ == Kind::sum ? 1 : depth, kind_ == Kind::sum ? rows_ : 1};
    p.b = {b_, nr * depth, nr};
    p.c = {c_, nr, cols};
    p.accumulate = kind_ == Kind::product || kind_ == Kind::sum;
    p.epilogue = kind_ == Kind::gradient ? kernels::Epilogue::gradient : kernels::Epilogue::none;
    if (p.epilogue != kernels::Epilogue::none) p.row = shifts_;
    kernels.f32->product(p);
  }

 private:
  static constexpr index_t fewest_rows = 208, cols = 384, depth = 192;
  Kind kind_;
  index_t rows_;
  const float *a_, *b_;
  float *c_, *shifts_;
};

struct Levels {
  instruments::CacheGeometry first, second;
};

void run(const KernelCase& observed, const kernels::Kernels& kernels, int repetitions,
         const std::optional<Levels>& levels) {
  if (!levels) {
    for (int i = 0; i < repetitions; ++i) observed.run(kernels);
    return;
  }
  instruments::TwoLevel caches(levels->first, levels->second);
  instruments::TraceRecorder recorder(64, ~std::uint64_t{0}, {&caches});
  {
    const instruments::TracingKernels tracing(kernels, &recorder);
    for (int i = 0; i < repetitions; ++i) observed.run(tracing.kernels());
  }
  recorder.finish();
  std::printf("%llu %llu\n", static_cast<unsigned long long>(caches.first_level().fills),
              static_cast<unsigned long long>(caches.second_level().fills));
}

instruments::CacheGeometry geometry(const char* bytes, const char* ways) {
  const int of = std::atoi(ways);
  return {static_cast<std::uint64_t>(std::atoll(bytes)) / (64 * static_cast<std::uint64_t>(of)), of,
          instruments::Replacement::lru};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 9) return 2;
  const kernels::Kernels* kernels = kernels::find_kernels(Isa::avx2);
  if (kernels == nullptr || !has_avx2()) fail("no AVX2 here");
  Arena arena(static_cast<std::size_t>(std::atoi(argv[2])));
  const int repetitions = std::atoi(argv[3]);
  std::optional<Levels> levels;
  if (argc == 9) levels = {geometry(argv[5], argv[6]), geometry(argv[7], argv[8])};
  constexpr const char* kinds[] = {"product", "gradient", "sum", "pack"};
  for (int i = 0; i < 4; ++i) {
    if (std::strcmp(argv[1], kinds[i]) != 0) continue;
    run(KernelCase(static_cast<Kind>(i), &arena), *kernels, repetitions, levels);
    return 0;
  }
  return 2;
}
