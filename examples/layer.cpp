// The same from C++: strided matrices, options, and what the machine offers.
#include <ioattn/ioattn.h>

#include <cstdio>
#include <vector>

int main() {
  const int n = 512, m = 300, d = 64, dv = 32, stride = 80;
  const std::vector<double> a1(n * stride, 0.01), a2(m * stride, 0.02), a3(m * stride, 0.03);
  const std::vector<double> x(d * d, 0.01), y(d * dv, 0.5);
  std::vector<double> o(n * dv), lse(n);

  // [cpp]
  ioattn_layer_problem problem = {};
  problem.struct_size = sizeof problem;
  problem.n = n;
  problem.m = m;
  problem.d = d;
  problem.dv = dv;
  problem.dtype = IOATTN_F64;
  problem.a1 = a1.data();
  problem.a2 = a2.data();
  problem.a3 = a3.data();
  problem.a1_stride = problem.a2_stride = problem.a3_stride = stride;
  problem.x = x.data();
  problem.y = y.data();

  ioattn_options options = {};
  options.struct_size = sizeof options;
  options.threads = 2;                // any number gives the same bits
  options.fast_memory_words = 40000;  // plan for a cache of 40000 doubles

  if (ioattn_layer_forward(&problem, &options, o.data(), 0, lse.data()) != IOATTN_OK) {
    std::fprintf(stderr, "%s\n", ioattn_last_error());
    return 1;
  }
  // [cpp]
  ioattn_cache cache = {};
  cache.struct_size = sizeof cache;
  if (ioattn_machine_cache(2, &cache) == IOATTN_OK) {
    std::printf("L2: %lld bytes a thread (%s)\n", static_cast<long long>(cache.share_bytes),
                cache.source);
  }
  std::printf("O[0][0] = %.6f, LSE[0] = %.6f\n", o[0], lse[0]);
  return o[0] > 0.959999 && o[0] < 0.960001 ? 0 : 1;
}
