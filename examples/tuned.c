/* A program that tunes itself: its first plan of a shape is searched for, for half a second at
 * most, and saved; later plans, and later runs, find it. */
#include <ioattn/ioattn.h>
#include <stdio.h>
#include <stdlib.h>

enum { heads = 2, n = 256, d = 64 };

static int fail(ioattn_status status) {
  fprintf(stderr, "%s: %s\n", ioattn_status_string(status), ioattn_last_error());
  return 1;
}

static int print_plan(const ioattn_plan* plan) {
  size_t size = 0;
  ioattn_status status = ioattn_plan_describe(plan, NULL, 0, &size);
  if (status != IOATTN_OK) return fail(status);
  char* text = malloc(size);
  if (text == NULL) return 1;
  status = ioattn_plan_describe(plan, text, size, NULL);
  if (status == IOATTN_OK) printf("%s\n", text); /* "origin":"measure", later "wisdom" */
  free(text);
  return status == IOATTN_OK ? 0 : fail(status);
}

static int tuned(const float* q, const float* k, const float* v, float* o) {
  ioattn_sdpa_problem problem = {.struct_size = sizeof problem,
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

  // [tuned]
  const ioattn_options options = {.struct_size = sizeof options, .rigor = IOATTN_MEASURE};
  ioattn_plan* plan = NULL;
  ioattn_status status = ioattn_sdpa_plan_create(IOATTN_FORWARD, &problem, NULL, &options, &plan);
  if (status != IOATTN_OK) return fail(status);
  /* For the next run. Nowhere to write to is no reason to stop. */
  if (ioattn_wisdom_export_file(NULL) != IOATTN_OK) fprintf(stderr, "%s\n", ioattn_last_error());
  status = ioattn_sdpa_execute_forward(plan, &problem, o, NULL, NULL, NULL, NULL, 0);
  // [tuned]
  if (status != IOATTN_OK) return fail(status);

  /* The one-call functions take what is known as well. */
  status = ioattn_sdpa_forward(&problem, NULL, o, NULL, NULL, NULL);
  if (status != IOATTN_OK) return fail(status);
  const int failed = print_plan(plan);
  ioattn_plan_destroy(plan);
  return failed;
}

int main(void) {
  const size_t count = (size_t)heads * n * d;
  float *q = calloc(3 * count, sizeof *q), *o = calloc(count, sizeof *o);
  const int failed = q == NULL || o == NULL ? 1 : tuned(q, q + count, q + 2 * count, o);
  free(q);
  free(o);
  return failed;
}
