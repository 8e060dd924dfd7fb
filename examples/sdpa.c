/* Attention by head: 4 query heads on 2 heads of keys, whose 96 keys are in two slices, as if they
 * were in two places; the partial results merge, and gradients of each slice follow from the merged
 * ones. */
#include <ioattn/ioattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { heads = 4, kv_heads = 2, n = 64, m = 96, slice = 48, d = 32, dv = 24 };

static float* values(size_t count) {
  float* array = malloc(count * sizeof *array);
  for (size_t i = 0; array != NULL && i < count; ++i) array[i] = (float)(i * 7919 % 1000) / 500 - 1;
  return array;
}

static int fail(ioattn_status status) {
  fprintf(stderr, "%s: %s\n", ioattn_status_string(status), ioattn_last_error());
  return 1;
}

int main(void) {
  const size_t queries = (size_t)heads * n, keys = (size_t)kv_heads * m;
  float *q = values(queries * d), *k = values(keys * d), *v = values(keys * dv);
  float *d_o = values(queries * dv), *o = values(queries * dv), *lse = values(queries);
  float *part_o = values(2 * queries * dv), *part_lse = values(2 * queries);
  float *dq = values(queries * d), *dk = values(keys * d);
  if (!q || !k || !v || !d_o || !o || !lse || !part_o || !part_lse || !dq || !dk) return 1;

  // [sdpa]
  ioattn_sdpa_problem problem = {.struct_size = sizeof problem,
                                 .batch = 1,
                                 .heads = heads,
                                 .kv_heads = kv_heads, /* two query heads share one */
                                 .n = n,
                                 .m = slice,
                                 .d = d,
                                 .dv = dv,
                                 .dtype = IOATTN_F32,
                                 .q = q,
                                 .k_stride = {0, (int64_t)m * d, d}, /* of batch, head, row */
                                 .v_stride = {0, (int64_t)m * dv, dv},
                                 .mask = IOATTN_MASK_CAUSAL_TOP_LEFT,
                                 .q_offset = m - n}; /* the last query sees all keys */
  ioattn_partial parts[2] = {{0}};
  for (int i = 0; i < 2; ++i) {
    float* slice_o = part_o + (size_t)i * heads * n * dv;
    float* slice_lse = part_lse + (size_t)i * heads * n;
    problem.k = k + (size_t)i * slice * d;
    problem.v = v + (size_t)i * slice * dv;
    problem.k_offset = (int64_t)i * slice;
    ioattn_status status = ioattn_sdpa_forward(&problem, NULL, slice_o, NULL, slice_lse, NULL);
    if (status != IOATTN_OK) return fail(status);
    parts[i].o = slice_o;
    parts[i].lse = slice_lse;
  }
  const ioattn_merge_shape shape = {sizeof shape, 1, heads, n, dv, IOATTN_F32};
  ioattn_status status = ioattn_merge(&shape, NULL, parts, 2, o, NULL, lse, NULL);

  for (int i = 0; i < 2 && status == IOATTN_OK; ++i) {
    problem.k = k + (size_t)i * slice * d;
    problem.v = v + (size_t)i * slice * dv;
    problem.k_offset = (int64_t)i * slice;
    const ioattn_sdpa_gradients dq_part = {
        .struct_size = sizeof dq_part, .dq = dq, .accumulate = i > 0}; /* dQ adds up */
    status = ioattn_sdpa_backward(&problem, NULL, d_o, NULL, o, NULL, lse, NULL, &dq_part);
    if (status != IOATTN_OK) break;
    const ioattn_sdpa_gradients dk_part = {.struct_size = sizeof dk_part,
                                           .dk = dk + (size_t)i * slice * d,
                                           .dk_stride = {0, (int64_t)m * d, d}};
    status = ioattn_sdpa_backward(&problem, NULL, d_o, NULL, o, NULL, lse, NULL, &dk_part);
  }
  // [sdpa]
  if (status != IOATTN_OK) return fail(status);

  /* The same keys at once. */
  float *whole_o = values(queries * dv), *whole_dq = values(queries * d);
  if (!whole_o || !whole_dq) return 1;
  problem.m = m;
  problem.k = k;
  problem.v = v;
  problem.k_offset = 0;
  const ioattn_sdpa_gradients whole = {.struct_size = sizeof whole, .dq = whole_dq};
  status = ioattn_sdpa_forward(&problem, NULL, whole_o, NULL, lse, NULL);
  if (status != IOATTN_OK) return fail(status);
  // [plan]
  ioattn_plan* plan = NULL; /* of these sizes and this mask, whatever the memory */
  size_t bytes = 0;
  status = ioattn_sdpa_plan_create(IOATTN_BACKWARD, &problem, &whole, NULL, &plan);
  if (status == IOATTN_OK) status = ioattn_plan_workspace_size(plan, &bytes);
  /* Null: every execution takes its own from the heap. */
  void* workspace = bytes > 0 ? malloc(bytes) : NULL;
  for (int step = 0; step < 2 && status == IOATTN_OK; ++step) {
    status = ioattn_sdpa_execute_backward(plan, &problem, d_o, NULL, whole_o, NULL, lse, NULL,
                                          &whole, workspace, bytes);
  }
  free(workspace);
  ioattn_plan_destroy(plan);
  // [plan]
  if (status != IOATTN_OK) return fail(status);
  double worst = 0;
  for (size_t i = 0; i < queries * dv; ++i) {
    const double error = o[i] - whole_o[i];
    if (!(error * error <= worst * worst)) worst = error;
  }
  for (size_t i = 0; i < queries * d; ++i) {
    const double error = dq[i] - whole_dq[i];
    if (!(error * error <= worst * worst)) worst = error;
  }
  printf("two slices against the whole: largest difference %.1e\n", worst);
  float* all[] = {q, k, v, d_o, o, lse, part_o, part_lse, dq, dk, whole_o, whole_dq};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  return worst * worst < 1e-10 ? 0 : 1;
}
