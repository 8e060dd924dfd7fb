#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512BF16__)
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/x86_bf16_few.hpp"
#include "kernels/generic/x86_bf16_gradients.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {

const PairKernels avx512_bf16_pairs =
    X86Bf16Few<avx512_rows>::table(X86Bf16Gradients<avx512_rows>::table());

}  // namespace ioattn::kernels
