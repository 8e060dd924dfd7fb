#include "kernels/registry.hpp"

#include <algorithm>
#include <chrono>

#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {

constexpr const Kernels* built[] = {
#if defined(IOATTN_X86_KERNELS)
    &avx512_amx_kernels, &avx512_bf16_kernels, &avx512_kernels, &avx2_kernels,
#elif defined(IOATTN_ARM_KERNELS)
    &neon_kernels,
#endif
    &scalar_kernels,
};
// For whoever names them.
constexpr const Kernels* on_request[] = {
    &emulated_bf16_kernels,
    &emulated_amx_kernels,
};

// Of a KernelTable or of PairKernels.
template <class Table>
double peak(const Table& table, double seconds) {
  using clock = std::chrono::steady_clock;
  constexpr int rounds = 5;
  volatile decltype(table.fma_loop(1)) sink = 0;
  index_t iterations = 1000;
  double best = 0;
  for (int round = 0; round < rounds;) {
    const auto start = clock::now();
    sink = table.fma_loop(iterations);
    const double elapsed = std::chrono::duration<double>(clock::now() - start).count();
    if (elapsed < seconds / rounds / 2) {
      iterations *= 2;
      continue;
    }
    const double fma =
        static_cast<double>(iterations) * static_cast<double>(table.fma_per_iteration);
    best = std::max(best, 2 * fma / elapsed);
    ++round;
  }
  (void)sink;
  return best;
}

}  // namespace

KernelList all_kernels() { return {built, static_cast<int>(std::size(built))}; }

const Kernels* find_kernels(Isa isa, int datapath_bits) {
  for (const auto& list :
       {all_kernels(), KernelList{on_request, static_cast<int>(std::size(on_request))}}) {
    for (const Kernels* kernels : list) {
      if (kernels->isa != isa) continue;
      return datapath_bits == 256 && kernels->in_halves != nullptr ? kernels->in_halves : kernels;
    }
  }
  return nullptr;
}

Status select_kernels(IsaSet cpu, const char* override_name, const Kernels** kernels) {
  if (override_name != nullptr && *override_name != '\0') {
    Isa isa{};
    if (!parse_isa(override_name, &isa)) {
      std::string known;
      for (int i = 0; i < isa_count; ++i)
        known += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Isa>(i)));
      return Status::error(StatusCode::invalid_argument,
                           "IOATTN_ISA: no ISA is called \"%.32s\"; there are %s", override_name,
                           known.c_str());
    }
    const Kernels* found = find_kernels(isa);
    if (found == nullptr || !cpu.has(isa)) {
      return Status::error(StatusCode::unsupported, "IOATTN_ISA: %s is %s", override_name,
                           found == nullptr ? "not built" : "not available on this CPU");
    }
    *kernels = found;
    return Status::ok();
  }
  for (const Kernels* candidate : built) {
    if (cpu.has(candidate->isa)) {
      *kernels = candidate;
      return Status::ok();
    }
  }
  return Status::error(StatusCode::internal, "no kernels were built");
}

double measure_fma_peak(const Kernels& kernels, DType dtype, double seconds) {
  if (dtype == DType::f64) return peak(*kernels.f64, seconds);
  const PairKernels* pairs = dtype == DType::bf16 ? kernels.of_bf16->pairs_of_bf16 : nullptr;
  if (pairs == nullptr) return peak(*kernels.f32, seconds);
  const PairRegion region(pairs);
  return peak(*pairs, seconds);
}

}  // namespace ioattn::kernels
