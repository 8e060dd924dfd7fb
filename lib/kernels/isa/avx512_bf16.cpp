#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512BF16__)
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/x86_bf16_few.hpp"
#include "kernels/generic/x86_bf16_gradients.hpp"
#include "kernels/generic/x86_half_vector.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr PairKernels pairs =
    X86Bf16Few<avx512_rows>::table(X86Bf16Gradients<avx512_rows>::table());

// Terms of vectors half as long.
struct HalfBf16Terms {
  using Word = bf16x2;
  using Vector = __m256i;
  using V = X86HalfVector<float>;
  static constexpr bool can_scale = true;
  static constexpr bool cuts_columns = true;
  static IOATTN_INLINE Vector splat(Word x) { return _mm256_set1_epi32(static_cast<int>(x.bits)); }
  static IOATTN_INLINE Vector load(const Word* p) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(p));
  }
  static IOATTN_INLINE V multiply_add(Vector a, Vector b, V sum) {
    return {_mm256_dpbf16_ps(sum.value, (__m256bh)a, (__m256bh)b)};
  }
};

constexpr PairKernels pairs_in_halves = [] {
  PairKernels table = pairs;
  using Rest = RegisterTiles<X86HalfVector<float>, 4, HalfBf16Terms>;
  table.product = ProductKernel<XsimdVector<float>, avx512_rows, 2, Bf16Terms, 0, Rest>::product;
  return table;
}();
}  // namespace

const PairKernels avx512_bf16_pairs = pairs;
const PairKernels avx512_bf16_pairs_in_halves = pairs_in_halves;

}  // namespace ioattn::kernels
