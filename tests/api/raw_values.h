/* Enumerations with any number in them, as only C may pass them. */
#ifndef IOATTN_TESTS_API_RAW_VALUES_H
#define IOATTN_TESTS_API_RAW_VALUES_H

#include "ioattn/ioattn.h"

#ifdef __cplusplus
extern "C" {
#endif

const char* raw_status_string(int status);
void raw_set_dtype(ioattn_layer_problem* problem, int dtype);
void raw_set_mask(ioattn_layer_problem* problem, int mask);
void raw_set_shape_mask(ioattn_layer_shape* shape, int mask);
void raw_set_sdpa_mask(ioattn_sdpa_problem* problem, int mask);
ioattn_status raw_sdpa_plan_create(int pass, const ioattn_sdpa_problem* problem,
                                   ioattn_plan** plan);
ioattn_status raw_layer_bound(int pass, int algorithms, int tie, double* words);

#ifdef __cplusplus
}
#endif

#endif /* IOATTN_TESTS_API_RAW_VALUES_H */
