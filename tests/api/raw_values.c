#include "api/raw_values.h"

const char* raw_status_string(int status) { return ioattn_status_string((ioattn_status)status); }

void raw_set_dtype(ioattn_layer_problem* problem, int dtype) {
  problem->dtype = (ioattn_dtype)dtype;
}

void raw_set_mask(ioattn_layer_problem* problem, int mask) { problem->mask = (ioattn_mask)mask; }

void raw_set_shape_mask(ioattn_layer_shape* shape, int mask) { shape->mask = (ioattn_mask)mask; }

void raw_set_sdpa_mask(ioattn_sdpa_problem* problem, int mask) {
  problem->mask = (ioattn_mask)mask;
}

ioattn_status raw_sdpa_plan_create(int pass, const ioattn_sdpa_problem* problem,
                                   ioattn_plan** plan) {
  return ioattn_sdpa_plan_create((ioattn_pass)pass, problem, NULL, NULL, plan);
}

ioattn_status raw_layer_bound(int pass, int algorithms, int tie, double* words) {
  return ioattn_layer_bound((ioattn_pass)pass, (ioattn_class)algorithms, (ioattn_tie)tie, 8, 8, 4,
                            4, 64, words, NULL);
}
