/* dQ, dK and dV of one head, so many times, on one thread, for a simulator to watch:
 *   sdpa_backward N D REPETITIONS [OBJECTIVE | PLAN]
 * Two runs that differ by one repetition differ by the misses of one backward pass. PLAN is the
 * text of a plan; without one the library plans, for the OBJECTIVE time, words@L1 or words@L2. The
 * plan is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ioattn/ioattn.h"

static int fail(ioattn_status status) {
  fprintf(stderr, "sdpa_backward: %s: %s\n", ioattn_status_string(status), ioattn_last_error());
  return 1;
}

/* On a page, as large arrays of any allocator are, so that lines are whole. */
static float* values(long count, unsigned seed) {
  const size_t page = 4096, bytes = (size_t)count * sizeof(float);
  float* array = aligned_alloc(page, (bytes + page - 1) / page * page);
  if (array == NULL) return NULL;
  for (long i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    array[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
  return array;
}

static int print_plan(const ioattn_plan* plan) {
  char text[2048];
  const ioattn_status status = ioattn_plan_text(plan, text, sizeof text, NULL);
  if (status != IOATTN_OK) return fail(status);
  printf("%s\n", text);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: sdpa_backward N D REPETITIONS [OBJECTIVE | PLAN]\n");
    return 2;
  }
  const long n = strtol(argv[1], NULL, 10), d = strtol(argv[2], NULL, 10);
  const long repetitions = strtol(argv[3], NULL, 10);
  const long most = 1L << 24;
  if (n < 1 || d < 1 || repetitions < 1 || n > most || d > most || n > (1L << 34) / d) {
    fprintf(stderr, "sdpa_backward: sizes from 1 to 2^24, 2^34 elements in all\n");
    return 2;
  }
  float* arrays[9];
  for (unsigned i = 0; i < 9; ++i) {
    arrays[i] = values(i < 8 ? n * d : n, i);
    if (arrays[i] == NULL) return fail(IOATTN_OUT_OF_MEMORY);
  }
  float *o = arrays[4], *lse = arrays[8];
  const ioattn_sdpa_problem problem = {.struct_size = sizeof problem,
                                       .batch = 1,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .n = n,
                                       .m = n,
                                       .d = d,
                                       .dv = d,
                                       .dtype = IOATTN_F32,
                                       .q = arrays[0],
                                       .k = arrays[1],
                                       .v = arrays[2]};
  const ioattn_sdpa_gradients gradients = {
      .struct_size = sizeof gradients, .dq = arrays[5], .dk = arrays[6], .dv = arrays[7]};
  ioattn_options options = {.struct_size = sizeof options, .threads = 1};
  const char* text = argc == 5 ? argv[4] : "time";
  const char* objectives[] = {"time", "words@L1", "words@L2"}; /* as ioattn_objective has them */
  for (int i = 0; i < 3; ++i) {
    if (strcmp(text, objectives[i]) != 0) continue;
    options.objective = i;
    text = NULL;
    break;
  }

  ioattn_plan* plan = NULL;
  ioattn_status status =
      text != NULL
          ? ioattn_sdpa_plan_parse(IOATTN_BACKWARD, &problem, &gradients, &options, text, &plan)
          : ioattn_sdpa_plan_create(IOATTN_BACKWARD, &problem, &gradients, &options, &plan);
  size_t bytes = 0;
  if (status == IOATTN_OK) status = ioattn_plan_workspace_size(plan, &bytes);
  if (status != IOATTN_OK) return fail(status);
  if (print_plan(plan) != 0) return 1;
  void* workspace = malloc(bytes);
  if (bytes > 0 && workspace == NULL) return fail(IOATTN_OUT_OF_MEMORY);

  status = ioattn_sdpa_forward(&problem, &options, o, NULL, lse, NULL);
  for (long i = 0; i < repetitions && status == IOATTN_OK; ++i) {
    status = ioattn_sdpa_execute_backward(plan, &problem, arrays[3], NULL, o, NULL, lse, NULL,
                                          &gradients, workspace, bytes);
  }
  free(workspace);
  ioattn_plan_destroy(plan);
  for (int i = 0; i < 9; ++i) free(arrays[i]);
  return status == IOATTN_OK ? 0 : fail(status);
}
