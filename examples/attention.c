/* Attention of one batch entry with 8 heads, forward and backward. */
#include <ioattn/ioattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { heads = 8, n = 256, d = 64 };

static float* values(size_t count) {
  float* array = malloc(count * sizeof *array);
  for (size_t i = 0; array != NULL && i < count; ++i) array[i] = (float)(i * 7919 % 1000) / 500 - 1;
  return array;
}

int main(void) {
  const size_t count = (size_t)heads * n * d;
  float *q = values(count), *k = values(count), *v = values(count), *d_o = values(count);
  float *o = values(count), *lse = values((size_t)heads * n);
  float *dq = values(count), *dk = values(count), *dv = values(count);
  if (!q || !k || !v || !d_o || !o || !lse || !dq || !dk || !dv) return 1;

  // [attention]
  /* Q, K, V, O: [1, 8, n, d], rows of floats one after the other; the scale is 1/sqrt(d) */
  const ioattn_sdpa_problem problem = {.struct_size = sizeof problem,
                                       .batch = 1,
                                       .heads = heads,
                                       .kv_heads = heads,
                                       .n = n,
                                       .m = n,
                                       .d = d,
                                       .dv = d,
                                       .dtype = IOATTN_F32,
                                       .q = q,
                                       .k = k,
                                       .v = v};
  ioattn_status status = ioattn_sdpa_forward(&problem, NULL, o, NULL, lse, NULL);
  if (status == IOATTN_OK) {
    const ioattn_sdpa_gradients gradients = {
        .struct_size = sizeof gradients, .dq = dq, .dk = dk, .dv = dv};
    status = ioattn_sdpa_backward(&problem, NULL, d_o, NULL, o, NULL, lse, NULL, &gradients);
  }
  if (status != IOATTN_OK) {
    fprintf(stderr, "%s: %s\n", ioattn_status_string(status), ioattn_last_error());
    return 1;
  }
  // [attention]

  printf("O[0] = %.6f, dQ[0] = %.6f\n", (double)o[0], (double)dq[0]);
  free(q), free(k), free(v), free(d_o), free(o), free(lse), free(dq), free(dk), free(dv);
  return 0;
}
