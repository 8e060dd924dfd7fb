#pragma once

#include <string>

#include "base/types.hpp"

namespace ioattn::bench {

enum class Op { plain, transposed };

// C := alpha op(A) op(B) by OpenBLAS, where op(A) is rows x depth and op(B) depth x cols;
// row-major, without padding.
void gemm(Op of_a, Op of_b, index_t rows, index_t cols, index_t depth, double alpha, const float* a,
          const float* b, float* c);
void gemm(Op of_a, Op of_b, index_t rows, index_t cols, index_t depth, double alpha,
          const double* a, const double* b, double* c);

void set_openblas_threads(int threads);

// OpenBLAS 0.3.21 takes newer CPUs for older ones: sets OPENBLAS_CORETYPE to the best core whose
// instructions this CPU has, unless it is set, and starts the program again.
void force_best_openblas_core(char** argv);
// What a benchmark of it is labelled with: the core.
std::string openblas_label();

}  // namespace ioattn::bench
