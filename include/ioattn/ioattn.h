/* ioattn: exact softmax attention on CPUs, I/O-optimal for the caches of the machine it runs on.
 *
 * C99 and later. Every function is safe to call from several threads at once. None prints, ends the
 * process, or changes the caller's floating-point environment; results are computed in the default
 * one (round to nearest, denormals kept). On failure outputs are untouched and ioattn_last_error()
 * says why.
 *
 * The layer problem (Q = A1 W_Q, K = A2 W_K, V = A3 W_V with X = W_Q W_K^T and Y = W_V):
 *     S = A1 X    s = S A2^T    LSE_i = log sum_j exp(s_ij)    f = exp(s - LSE)    O = f A3 Y
 *     dX = A1^T p A2    with    p = f o (dO (A3 Y)^T - rowsum(O o dO) 1^T)
 * where A1 is n x d, A2 and A3 are m x d, X is d x d, Y is d x dv, O and dO are n x dv. Matrices
 * are row-major. ("On Fine-Grained I/O Complexity of Attention Backward Passes", section 3.) */
#ifndef IOATTN_IOATTN_H
#define IOATTN_IOATTN_H

#include <stddef.h>
#include <stdint.h>

#define IOATTN_VERSION_MAJOR 0
#define IOATTN_VERSION_MINOR 1
#define IOATTN_VERSION_PATCH 0

#if defined(__GNUC__)
#define IOATTN_API __attribute__((visibility("default")))
#else
#define IOATTN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ----------------------------------------------------------------------------------
 */

typedef enum ioattn_status {
  IOATTN_OK = 0,
  IOATTN_INVALID_ARGUMENT = 1, /* a pointer, size, stride or option is wrong, or arrays overlap */
  IOATTN_SIZE_OVERFLOW = 2,    /* a product of the sizes does not fit in 64 bits */
  IOATTN_FAST_MEMORY_TOO_SMALL = 3, /* the message names the least number of words that works */
  IOATTN_MEMORY_LIMIT = 4,          /* every schedule needs more scratch memory than allowed */
  IOATTN_OUT_OF_MEMORY = 5,
  IOATTN_UNSUPPORTED = 6, /* known, but not in this build or not on this CPU */
  IOATTN_INTERNAL = 7
} ioattn_status;

/* What a status means, in a few words. Never null. */
IOATTN_API const char* ioattn_status_string(ioattn_status status);

/* The message of the last failed call of this thread; "" before the first. Valid until the next
 * call that fails on this thread. */
IOATTN_API const char* ioattn_last_error(void);

/* ---- Ring 1: one call -------------------------------------------------------------------------
 */

typedef enum ioattn_dtype { IOATTN_F32 = 0, IOATTN_F64 = 1 } ioattn_dtype;

/* Inputs of the layer problem. Sizes may be 0: without keys (m = 0) O and dX are 0 and LSE is -inf.
 * Equal pointers and strides (a2 = a3, or a1 = a2 = a3) are recognised: that memory is then moved
 * once. Strides are elements from row to row; 0 means that rows follow each other. */
typedef struct ioattn_layer_problem {
  size_t struct_size; /* sizeof(ioattn_layer_problem) */
  int64_t n, m, d, dv;
  ioattn_dtype dtype; /* of all inputs and outputs; every sum is of this type */
  const void* a1;     /* [n, d] */
  const void* a2;     /* [m, d] */
  const void* a3;     /* [m, d] */
  const void* x;      /* [d, d] */
  const void* y;      /* [d, dv] */
  int64_t a1_stride, a2_stride, a3_stride, x_stride, y_stride;
} ioattn_layer_problem;

/* How to run. A null pointer, or zeros after struct_size, means the defaults. */
typedef struct ioattn_options {
  size_t struct_size;  /* sizeof(ioattn_options) */
  int32_t threads;     /* at most so many; 0: all that affinity and CPU quota grant. Results are
                          bit-identical for every number. */
  int32_t cache_level; /* level whose fast memory M decides the plan: 1, 2 or 3; 0: 2 */
  int64_t fast_memory_words; /* M in words of the dtype, exact; 0: from the machine */
  int64_t memory_limit;      /* bytes of scratch memory for intermediates; 0: O(n d), never n x m */
  const char* schedule;      /* "row_stream", "paper_small", "paper_large" or, backward only,
                                "weight_resident", "resident", "naive"; null or "auto": the planner
                                chooses */
} ioattn_options;

/* O [n, dv] and LSE [n]. A null output is not wanted. o_stride: elements from row to row, 0: dv. */
IOATTN_API ioattn_status ioattn_layer_forward(const ioattn_layer_problem* problem,
                                              const ioattn_options* options, void* o,
                                              int64_t o_stride, void* lse);

/* dX [d, d] from dO [n, dv] and the forward pass's O [n, dv] and LSE [n]. If o and lse are both
 * null they are computed first. A null dx is not wanted. Strides: 0 means dv, dv and d. */
IOATTN_API ioattn_status ioattn_layer_backward(const ioattn_layer_problem* problem,
                                               const ioattn_options* options, const void* d_o,
                                               int64_t d_o_stride, const void* o, int64_t o_stride,
                                               const void* lse, void* dx, int64_t dx_stride);

/* ---- Ring 3: what is here ---------------------------------------------------------------------
 */

/* "0.1.0" */
IOATTN_API const char* ioattn_version(void);

/* Names of the ISAs that kernels were built for, best first; null from index `count` on. *available
 * (may be null) says whether this CPU has it. */
IOATTN_API const char* ioattn_isa(int32_t index, int32_t* available);

/* The ISA that calls use: the best available one, or that of the environment variable IOATTN_ISA.
 */
IOATTN_API ioattn_status ioattn_selected_isa(const char** name);

/* One cache level, as one thread of this process sees it. */
typedef struct ioattn_cache {
  size_t struct_size; /* sizeof(ioattn_cache), set by the caller */
  int64_t size_bytes;
  int64_t share_bytes; /* one thread's share with all allowed CPUs busy */
  int64_t words_f32;   /* M for f32: share x fraction / 4 */
  int64_t words_f64;
  int32_t line_bytes;   /* 0: unknown */
  int32_t ways;         /* 0: unknown or fully associative */
  int32_t sharing_cpus; /* 0: unknown */
  const char* source;   /* "override", "hwloc", "sysfs" or "assumed" */
} ioattn_cache;

/* IOATTN_UNSUPPORTED if the level (1, 2, 3) was not found. */
IOATTN_API ioattn_status ioattn_machine_cache(int32_t level, ioattn_cache* cache);

/* Threads that affinity and CPU quota grant; at least 1. */
IOATTN_API int32_t ioattn_machine_threads(void);

typedef enum ioattn_pass { IOATTN_FORWARD = 0, IOATTN_BACKWARD = 1 } ioattn_pass;

/* Algorithms that a bound holds for: any in the red-blue pebble game, or those with one accumulator
 * per entry and no multiply-add done twice. */
typedef enum ioattn_class { IOATTN_CLASS_PEBBLE = 0, IOATTN_CLASS_FMA = 1 } ioattn_class;

/* Which operands are the same memory. */
typedef enum ioattn_tie { IOATTN_TIE_NONE = 0, IOATTN_TIE_KV = 1, IOATTN_TIE_ALL = 2 } ioattn_tie;

/* Lower bound on the words that a pass of the layer problem moves between a fast memory of M words
 * and the slow one. *name (may be null) names the bound: see lib/theory/README.md. */
IOATTN_API ioattn_status ioattn_layer_bound(ioattn_pass pass, ioattn_class algorithms,
                                            ioattn_tie tie, int64_t n, int64_t m, int64_t d,
                                            int64_t dv, int64_t M, double* words,
                                            const char** name);

#ifdef __cplusplus
}
#endif

#endif /* IOATTN_IOATTN_H */
