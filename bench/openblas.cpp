#include "bench/openblas.hpp"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>

namespace ioattn::bench {
namespace {

CBLAS_TRANSPOSE cblas(Op op) { return op == Op::plain ? CblasNoTrans : CblasTrans; }
// The stored matrix of op(X), which is rows x cols, has rows of so many elements.
int stride(Op op, index_t rows, index_t cols) { return int(op == Op::plain ? cols : rows); }

}  // namespace

void gemm(Op of_a, Op of_b, index_t rows, index_t cols, index_t depth, double alpha, const float* a,
          const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, cblas(of_a), cblas(of_b), int(rows), int(cols), int(depth),
              float(alpha), a, stride(of_a, rows, depth), b, stride(of_b, depth, cols), 0, c,
              int(cols));
}
void gemm(Op of_a, Op of_b, index_t rows, index_t cols, index_t depth, double alpha,
          const double* a, const double* b, double* c) {
  cblas_dgemm(CblasRowMajor, cblas(of_a), cblas(of_b), int(rows), int(cols), int(depth), alpha, a,
              stride(of_a, rows, depth), b, stride(of_b, depth, cols), 0, c, int(cols));
}

void set_openblas_threads(int threads) { openblas_set_num_threads(threads); }

void force_best_openblas_core(char** argv) {
  if (getenv("OPENBLAS_CORETYPE") != nullptr) return;
  __builtin_cpu_init();
  const char* core = nullptr;
  if (__builtin_cpu_supports("avx512bf16")) {
    core = "Cooperlake";
  } else if (__builtin_cpu_supports("avx512f")) {
    core = "SkylakeX";
  } else {
    return;  // without AVX-512 it knows the CPU
  }
  setenv("OPENBLAS_CORETYPE", core, 1);
  execv("/proc/self/exe", argv);  // OpenBLAS looked before main; if this fails, so be it
}

std::string openblas_label() {
  return std::string("n x m matrices in memory, OpenBLAS ") + openblas_get_corename();
}

}  // namespace ioattn::bench
