/* Forward and backward pass of one attention layer, from C. */
#include <ioattn/ioattn.h>
#include <stdio.h>

enum { n = 4, d = 3, dv = 2 };

int main(void) {
  const float a[n * d] = {1, 0, 2, -1, 1, 0, 0, 2, 1, 1, -1, 1};
  const float x[d * d] = {0.5f, 0, 0, 0, 0.5f, 0, 0, 0, 0.5f};
  const float y[d * dv] = {1, 0, 0, 1, 1, 1};
  const float d_o[n * dv] = {1, 0, 0, 1, -1, 0, 0, 2};
  float o[n * dv], lse[n], dx[d * d], da[n * d];

  // [c]
  const ioattn_layer_problem problem = {.struct_size = sizeof problem,
                                        .n = n,
                                        .m = n,
                                        .d = d,
                                        .dv = dv,
                                        .dtype = IOATTN_F32,
                                        .a1 = a,
                                        .a2 = a,
                                        .a3 = a, /* self-attention: one matrix, moved once */
                                        .x = x,
                                        .y = y};

  ioattn_status status = ioattn_layer_forward(&problem, NULL, o, 0, lse);
  if (status == IOATTN_OK) {
    /* dA: of the one matrix, in all its roles; what is left null is not computed */
    const ioattn_layer_gradients gradients = {.struct_size = sizeof gradients, .dx = dx, .da = da};
    status = ioattn_layer_backward(&problem, NULL, d_o, 0, o, 0, lse, &gradients);
  }
  if (status != IOATTN_OK) {
    fprintf(stderr, "%s: %s\n", ioattn_status_string(status), ioattn_last_error());
    return 1;
  }
  // [c]
  for (size_t i = 0; i < d; ++i) {
    printf("%9.6f %9.6f %9.6f\n", (double)dx[i * d], (double)dx[i * d + 1], (double)dx[i * d + 2]);
  }
  return 0;
}
