/** @mainpage ioattn
 * Exact softmax attention on CPUs, I/O-optimal for the caches of the machine it runs on.
 *
 * C99 and later. Every function is safe to call from several threads at once. None prints, ends the
 * process, or changes the caller's floating-point environment; results are computed in the default
 * one (round to nearest, denormals kept; softmax weights below the least normal number of their
 * type may be 0). On failure outputs are untouched and ioattn_last_error()
 * says why. Threads are proved to be available before OpenMP's runtime makes them; if it then gets
 * none, or no memory for itself, it ends the process, and so does hwloc at the first call. A call
 * takes up to 64 KiB of its thread's stack, and a deferred pthread_cancel() of that thread waits
 * for its end.
 *
 * Threads are those of OpenMP that the calling thread has: within a parallel region of the caller's
 * there is one. libgomp ends those that a region leaves out, and a process with this library ends
 * those of a thread that calls fork(), so that the child can make new ones; with them goes what
 * they keep in threadprivate variables. LLVM's runtime does neither.
 *
 * The layer problem (Q = A1 W_Q, K = A2 W_K, V = A3 W_V with X = W_Q W_K^T and Y = W_V):
 *
 *     S = A1 X    s = scale S A2^T    LSE_i = log sum_j exp(s_ij)    f = exp(s - LSE)    O = f A3 Y
 *     dX = A1^T p A2    with    p = scale f o (dO (A3 Y)^T - rowsum(O o dO) 1^T)
 *     dA1 = p A2 X^T    dA2 = p^T S    dA3 = f^T dO Y^T    dY = A3^T f^T dO
 *
 * where A1 is n x d, A2 and A3 are m x d, X is d x d, Y is d x dv, O and dO are n x dv, "o" is the
 * product element by element, 1 a vector of ones, and sums over j take the keys that the mask shows
 * to query i. Of a batch, every entry has its own A1, A2, A3 and O; X and Y are shared, dX and dY
 * are sums over the entries. Matrices are row-major. ("On Fine-Grained I/O Complexity of Attention
 * Backward Passes", section 3.)
 *
 * Scaled dot-product attention, the usual interface, has Q, K and V by batch entry and head:
 * ioattn_sdpa_problem.
 *
 * Documents that comments name by a path are in the source tree, and by the same path in the
 * folder where the examples are installed.
 *
 * Every declaration: ioattn.h. */
#ifndef IOATTN_IOATTN_H
#define IOATTN_IOATTN_H

/** @file
 * The C interface. */

#include <stddef.h>
#include <stdint.h>

#define IOATTN_VERSION_MAJOR 0 /**< Of this header; ioattn_version() is that of the library. */
#define IOATTN_VERSION_MINOR 1 /**< Before 1.0.0 a new minor version may break the ABI. */
#define IOATTN_VERSION_PATCH 0 /**< Repairs only. */

/** What the shared library exports. */
#if defined(__GNUC__)
#define IOATTN_API __attribute__((visibility("default")))
#else
#define IOATTN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** @name Results
 * @{ */

/** What became of a call. Where a function's errors are not listed there is
 * IOATTN_INVALID_ARGUMENT, and IOATTN_OUT_OF_MEMORY where it makes something. */
typedef enum ioattn_status {
  IOATTN_OK = 0,               /**< done */
  IOATTN_INVALID_ARGUMENT = 1, /**< a pointer, size, stride or option is wrong, or arrays overlap */
  IOATTN_SIZE_OVERFLOW = 2, /**< the largest product of sizes in any figure of any schedule is not
                               below 2^63: with w = d + dv + 1, of a layer
                               64 batch (r^2 w + r w^2 + w^3) where r = n + m + 1, of SDPA
                               16 (batch + 1) (heads + 1) (n + 1) (m + 1) w and
                               16 (n + m + 2) w^2 */
  IOATTN_FAST_MEMORY_TOO_SMALL = 3, /**< the message names the least number of words that works */
  IOATTN_MEMORY_LIMIT = 4,          /**< every schedule needs more scratch memory than allowed */
  IOATTN_OUT_OF_MEMORY = 5,         /**< an allocation failed */
  IOATTN_UNSUPPORTED = 6, /**< there is such a schedule, search, instruction set or cache level, but
                             not for this problem, these options, this build or this CPU */
  IOATTN_INTERNAL = 7     /**< a bug in ioattn: please report it */
} ioattn_status;

/** What a status means, in a few words. Never null. */
IOATTN_API const char* ioattn_status_string(ioattn_status status);

/** The message of the last failed call of this thread; "" before the first. Valid until the next
 * call that fails on this thread. */
IOATTN_API const char* ioattn_last_error(void);

/** @} */

/** @name Ring 1: one call
 * @{ */

/** Type of every element: of a word. */
typedef enum ioattn_dtype {
  IOATTN_F32 = 0,  /**< float */
  IOATTN_F64 = 1,  /**< double */
  IOATTN_BF16 = 2, /**< ioattn_bf16 */
  IOATTN_F16 = 3   /**< ioattn_f16 */
} ioattn_dtype;

/** bfloat16: the upper 16 bits of a float. From the highest: sign, 8 bits of exponent (bias 127), 7
 * of the fraction. In memory a uint16_t, so the compiler need not know it. */
typedef struct ioattn_bf16 {
  uint16_t bits; /**< the number */
} ioattn_bf16;

/** IEEE 754 binary16. From the highest: sign, 5 bits of exponent (bias 15), 10 of the fraction. The
 * largest finite number is 65504; results from 65520 on become infinite. */
typedef struct ioattn_f16 {
  uint16_t bits; /**< the number */
} ioattn_f16;

/** Which keys a query sees. What is hidden takes no part in anything: not even a NaN of it does,
 * but for last bits. A query that sees no key has O = 0, LSE = -inf, and no part in gradients (of
 * the layer problem 0 is then multiplied by X and Y, which makes NaN of what is not finite there).
 */
typedef enum ioattn_mask {
  IOATTN_MASK_NONE = 0,                /**< all */
  IOATTN_MASK_CAUSAL_TOP_LEFT = 1,     /**< query i the keys 0 ... i */
  IOATTN_MASK_CAUSAL_BOTTOM_RIGHT = 2, /**< query i the keys 0 ... i + m - n */
  IOATTN_MASK_WINDOW_TOP_LEFT = 3,     /**< query i the keys i - left ... i + right */
  IOATTN_MASK_WINDOW_BOTTOM_RIGHT = 4  /**< the same, from i + m - n */
} ioattn_mask;

/** Inputs of the layer problem. Sizes may be 0: without keys (m = 0) O and dX are 0 and LSE is
 * -inf. Equal pointers and strides (a2 = a3, or a1 = a2 = a3) are recognised: that memory is then
 * moved once. Strides are elements from row to row; 0 means that rows follow each other. */
typedef struct ioattn_layer_problem {
  size_t struct_size;  /**< sizeof(ioattn_layer_problem) */
  int64_t n,           /**< rows of A1: queries */
      m,               /**< rows of A2 and A3: keys */
      d,               /**< columns of A1, A2 and A3 */
      dv;              /**< columns of Y */
  ioattn_dtype dtype;  /**< of all inputs and outputs but LSE; every sum is of this type. Of
                          IOATTN_BF16 and IOATTN_F16 LSE and every sum are float, S, G, h and U
                          too: inputs become float as they are read, results are rounded once, to
                          nearest even. They are taken by "row_stream", "q_stored" and "half_dim"
                          and, of IOATTN_BF16 where the CPU multiplies pairs of them (ioattn_isa()),
                          by "tile_fused": h, softmax weights and their gradients are then rounded
                          as factors, once, S is the sum of two parts of 16 bits, denormals count as
                          0, and scores that an infinite A2 or an overflow makes infinite may be
                          NaN; the planner knows. */
  const void* a1;      /**< [n, d] */
  const void* a2;      /**< [m, d] */
  const void* a3;      /**< [m, d] */
  const void* x;       /**< [d, d] */
  const void* y;       /**< [d, dv] */
  int64_t a1_stride,   /**< of a1; 0: d */
      a2_stride,       /**< of a2; 0: d */
      a3_stride,       /**< of a3; 0: d */
      x_stride,        /**< of x; 0: d */
      y_stride;        /**< of y; 0: dv */
  double scale;        /**< of the scores, finite and not 0 as a number of LSE's type; 0: 1 */
  ioattn_mask mask;    /**< taken by the schedules "row_stream" and "tile_fused" alone; the
                          planner knows */
  int64_t window_left, /**< of the masks WINDOW alone: keys before a query's own, at most 2^60; -1:
                          all; 0: none, which is no default */
      window_right;    /**< keys after it, likewise */
  int64_t batch; /**< entries; 0: 1. Those of A1, A2, A3, of O, LSE, dO and the gradients of the A's
                    follow each other row by row: entry 1 of A1 begins at row n. */
} ioattn_layer_problem;

/** How a plan is found: how much time may be taken for it (docs/tuning.md). Wisdom is what was
 * learned before, by the process or `ioattn tune`. */
typedef enum ioattn_rigor {
  IOATTN_ESTIMATE = 0, /**< as wisdom says where there is some, else by closed formulas: nothing is
                          timed */
  IOATTN_MEASURE = 1,  /**< a search of at most 0.5 s, unless wisdom has that much rigor */
  IOATTN_PATIENT = 2,  /**< the same of at most 30 s */
  IOATTN_WISDOM_ONLY = 3 /**< as wisdom says, else IOATTN_UNSUPPORTED */
} ioattn_rigor;

/** What a plan minimises. Words decide for whoever shares a memory bandwidth that is the limit;
 * the plan with the fewest is seldom the fastest. */
typedef enum ioattn_objective {
  IOATTN_TIME = 0,     /**< estimated time */
  IOATTN_WORDS_L1 = 1, /**< words that cross L1, counted with M of L1, or fast_memory_words */
  IOATTN_WORDS_L2 = 2  /**< words that cross L2, counted with M of L2, or fast_memory_words */
} ioattn_objective;

/** How to run. A null pointer, or zeros after struct_size, means the defaults. */
typedef struct ioattn_options {
  size_t struct_size;  /**< sizeof(ioattn_options) */
  int32_t threads;     /**< at most so many; 0: all that affinity and CPU quota grant. Results are
                          bit-identical for every number; of a NaN only that it is one. */
  int32_t cache_level; /**< level whose fast memory M decides the plan: 1, 2 or 3; 0: 2. Of 2 the
                          blocks may be held in L3, where that is estimated to be faster. */
  int64_t fast_memory_words; /**< M in words of the dtype, exact; of 16 bits a float takes 2; 0:
                                from the machine */
  int64_t memory_limit; /**< bytes of scratch memory for intermediates: elements of whole matrices
                           and vectors (P, F, a scaled X, floats that become gradients of 16 bits);
                           0: O(n d), never n x m but for a named schedule that stores it. What pads
                           rows (of the layer problem to an odd number of register tiles' widths),
                           and blocks and packed operands of each thread, O(1) in n, come on top:
                           ioattn_plan_workspace_size() tells all. So do, of calls without a plan, O
                           and LSE that the caller leaves out. */
  const char* schedule; /**< forward "row_stream", "stationary", "score_stored", "paper_small",
                           "paper_large", "tile_fused"; backward "row_stream", "stationary",
                           "q_stored", "half_dim", "weight_resident", "resident", "tile_fused",
                           "paper_small", "paper_large", "naive"; null or "auto": the planner
                           chooses */
  int32_t rigor; /**< an ioattn_rigor. ioattn_sdpa_plan_create() and ioattn_layer_plan_create()
                    search, and keep in the process's wisdom what they find; the one-call functions
                    take what is known. To create a plan with another rigor than IOATTN_ESTIMATE is
                    IOATTN_UNSUPPORTED where fast_memory_words, a cache_level other than 2 or, of
                    the layer problem, a schedule is given, IOATTN_INVALID_ARGUMENT where
                    reproducible or an objective of words is. */
  double time_limit_seconds; /**< of a search, where shorter; 0: that of the rigor */
  int32_t reproducible; /**< not 0: wisdom is not used, so that results are bit-identical on every
                           machine with the same caches and instruction set */
  int64_t objective;    /**< an ioattn_objective. Where words decide, plans are estimated without
                           wisdom, and cache_level is 0 or the objective's. */
} ioattn_options;

/** O [n, dv] and LSE [n]. A null output is not wanted. o_stride: elements from row to row, 0: dv.
 *
 * Errors: IOATTN_INVALID_ARGUMENT, IOATTN_SIZE_OVERFLOW, IOATTN_OUT_OF_MEMORY,
 * IOATTN_FAST_MEMORY_TOO_SMALL, IOATTN_MEMORY_LIMIT, IOATTN_UNSUPPORTED; outputs are then
 * untouched. */
IOATTN_API ioattn_status ioattn_layer_forward(const ioattn_layer_problem* problem,
                                              const ioattn_options* options, void* o,
                                              int64_t o_stride, void* lse);

/** Gradients of sum(O o dO), any subset: a null output is not wanted. What several need is computed
 * once. Strides are elements from row to row; 0 means that rows follow each other. */
typedef struct ioattn_layer_gradients {
  size_t struct_size;  /**< sizeof(ioattn_layer_gradients) */
  void* dx;            /**< [d, d] */
  void* dy;            /**< [d, dv] */
  void* da1;           /**< [n, d] */
  void* da2;           /**< [m, d] */
  void* da3;           /**< [m, d] */
  void* da;            /**< [m, d], where a2 = a3: dA2 + dA3, and + dA1 where a1 = a2 = a3; one
                          accumulator per entry if none of its parts is wanted as well */
  void* dw_q;          /**< [d, dk] = dX W_K, where X = W_Q W_K^T */
  void* dw_k;          /**< [d, dk] = dX^T W_Q */
  int64_t dx_stride,   /**< of dx; 0: d */
      dy_stride,       /**< of dy; 0: dv */
      da1_stride,      /**< of da1; 0: d */
      da2_stride,      /**< of da2; 0: d */
      da3_stride,      /**< of da3; 0: d */
      da_stride;       /**< of da; 0: d */
  int64_t dw_q_stride, /**< of dw_q; 0: dk */
      dw_k_stride;     /**< of dw_k; 0: dk */
  const void* w_q;     /**< [d, dk]: input, for dw_k alone */
  const void* w_k;     /**< [d, dk]: input, for dw_q alone */
  int64_t w_q_stride,  /**< of w_q; 0: dk */
      w_k_stride;      /**< of w_k; 0: dk */
  int64_t dk;          /**< columns of W_Q and W_K, for dw_q and dw_k alone */
  int32_t in_f32;      /**< not 0: the gradients of a problem in 16 bits are float, not rounded.
                          Without a meaning for IOATTN_F32, refused for IOATTN_F64. */
} ioattn_layer_gradients;

/** Gradients from dO [n, dv] and the forward pass's O [n, dv] and LSE [n]. If o and lse are both
 * null they are computed first. Strides: 0 means dv. dX, and dw_q and dw_k with it, can be had from
 * any schedule; options that name another than "row_stream", "q_stored", "half_dim" or "tile_fused"
 * refuse the other gradients (IOATTN_UNSUPPORTED), for which the planner takes the second and third
 * where memory_limit has room for n x m scores. Without gradients wanted nothing happens. Gradients
 * of a problem in 16 bits take as many floats of scratch memory unless in_f32 is set; in IOATTN_F16
 * those from 65520 on become infinite: scale dO, or set in_f32, where they may; a plan counts them
 * (ioattn_plan_count_overflows()). Errors as for ioattn_layer_forward(). */
IOATTN_API ioattn_status ioattn_layer_backward(const ioattn_layer_problem* problem,
                                               const ioattn_options* options, const void* d_o,
                                               int64_t d_o_stride, const void* o, int64_t o_stride,
                                               const void* lse,
                                               const ioattn_layer_gradients* gradients);

/** Inputs of scaled dot-product attention, per batch entry b and query head h:
 *
 *     s = scale Q K^T + bias    LSE_i = log sum_j exp(s_ij)    O = exp(s - LSE) V
 *
 * where Q and K, V are those of head h and of head h / (heads / kv_heads). Results of a head have
 * the same bits alone, in any batch and for any number of threads; only forward, heads that share
 * keys may be planned for another instruction set than a head alone, and a memory_limit, which is
 * of all heads, may plan them in another way. Sums are of weights up to 2^47, divided at the end:
 * where a value of V is above 2^-47 of the largest number over m they may be infinite. O and the
 * gradients may be anything where finite inputs make scale Q, scale K, Q K^T or, before its scale,
 * dQ that is not finite, and are as exact as scale Q where that is a denormal. A query whose scores
 * are all -inf has LSE = -inf and weights of 0: O = 0 where V is finite. One with a score of +inf
 * has NaN for LSE and O. Strides are elements from batch entry to batch entry, from head to head
 * and from row to row, of inputs at least the length of a row; within a row they are 1. A stride of
 * 0 stands for that of [batch, heads, rows, columns] in C order, given the strides to the right of
 * it; of a dimension of size 1 it may be anything and counts as 0. So for Q as [batch, n, heads, d]
 * q_stride = {n * heads * d, d, heads * d}. Sizes may be 0: without keys (m = 0) O is 0, LSE -inf,
 * and gradients are 0, and pointers to nothing may be null.
 *
 * Forward, keys pass by once for all heads that share them, not once for each, where no bias and no
 * mask tells their rows apart and rows of Q, O and LSE follow each other from head to head:
 * [batch, heads, n, d], or any layout of single queries (n = 1), as in decoding.
 *
 * Sequences of several lengths are packed one after the other: with q_starts and k_starts every
 * array has one batch entry, whose n and m rows are those of all sequences, and sequence b has the
 * queries q_starts[b] ... q_starts[b + 1] - 1 and the keys k_starts[b] ... k_starts[b + 1] - 1.
 * Each is planned and computed as if it were alone, masks and offsets included, with the same bits.
 * A bias, and its gradient, is [1, bias_heads, n, m], of all rows and columns: that of sequence b
 * is the block of its queries and keys. Rows of no sequence, and blocks of the queries of one
 * sequence and the keys of another, are neither read nor written. Sequences run beside each
 * other, so memory_limit is divided among those that have something to compute, by their queries,
 * rounded down.
 */
typedef struct ioattn_sdpa_problem {
  size_t struct_size;  /**< sizeof(ioattn_sdpa_problem) */
  int64_t batch,       /**< entries, or sequences that are packed into one */
      heads,           /**< of queries; a multiple of kv_heads */
      kv_heads,        /**< of keys and values: heads / kv_heads query heads share one */
      n,               /**< rows of a head of Q: queries */
      m,               /**< rows of a head of K and V: keys */
      d,               /**< columns of Q and K */
      dv;              /**< columns of V */
  ioattn_dtype dtype;  /**< of all inputs and outputs but LSE; every sum is of this type. Of
                          IOATTN_BF16 and IOATTN_F16 LSE and every sum are float: inputs become
                          float as they are read, results are rounded once, to nearest even. Where
                          the CPU multiplies pairs of bfloat16 (ioattn_isa()), passes by pairs do,
                          and softmax weights and their gradients are rounded as factors, once; in
                          inputs and sums denormals then count as 0. */
  const void* q;       /**< [batch, heads, n, d] */
  const void* k;       /**< [batch, kv_heads, m, d] */
  const void* v;       /**< [batch, kv_heads, m, dv] */
  int64_t q_stride[3], /**< of q: batch, head, row. Addresses are multiples of an element's size;
                          what begins with 64-byte lines, row by row, is mostly read where it lies,
                          other rows are copied */
      k_stride[3],     /**< of k */
      v_stride[3];     /**< of v */
  double scale;     /**< finite and not 0 as a number of LSE's type; 0: 1 / sqrt(d), of d = 0 1 */
  ioattn_mask mask; /**< bottom-right masks are aligned with the n and m of this call */
  int64_t window_left, /**< of the masks WINDOW alone: keys before a query's own, at most 2^60; -1:
                          all; 0: none, which is no default */
      window_right;    /**< keys after it, likewise */
  int64_t q_offset,    /**< the mask takes query i for query i + q_offset ... */
      k_offset;        /**< ... and key j for key j + k_offset: where a call has a slice of a longer
                          sequence. From -2^59 to 2^59. */
  const int64_t* q_starts; /**< null, or batch + 1 ascending numbers from 0 to n: where the queries
                              of each packed sequence begin, and where the last end */
  const int64_t* k_starts; /**< likewise of keys, from 0 to m; null where q_starts is */
  const void* bias;   /**< [bias_batch, bias_heads, n, m], added to the scaled scores; -inf hides
                         a key, as masks do, but not a NaN or an infinity in it. Of all entries or
                         heads, it is not of all queries: a row of it is read for each */
  int64_t bias_batch, /**< 1: of all entries, and of packed sequences; or batch; 0: there is no
                         bias */
      bias_heads,     /**< 1: of all heads; or heads; 0: there is no bias */
      bias_stride[3]; /**< of bias: batch, head, row */
} ioattn_sdpa_problem;

/** O [batch, heads, n, dv] and LSE [batch, heads, n]. A null output is not wanted. Strides: of
 * batch, head and row, those of LSE of batch and head; a null pointer or 0 means C order. An output
 * may interleave with other arrays, as heads of one packed array do, but share no element; each of
 * its strides is at least the extent that the smaller ones span. Memory beside the outputs: O(1) in
 * batch, n and m. Options: of the schedules there is "row_stream", which leaves the passes to the
 * planner as "auto" does. The last few plans are kept: where keys are added to those of the last
 * call, as in decoding, each call plans anew, in some 3 to 10 us.
 *
 * Errors: IOATTN_INVALID_ARGUMENT, IOATTN_SIZE_OVERFLOW, IOATTN_OUT_OF_MEMORY,
 * IOATTN_FAST_MEMORY_TOO_SMALL, IOATTN_UNSUPPORTED; outputs are then untouched. */
IOATTN_API ioattn_status ioattn_sdpa_forward(const ioattn_sdpa_problem* problem,
                                             const ioattn_options* options, void* o,
                                             const int64_t* o_stride, void* lse,
                                             const int64_t* lse_stride);

/** Gradients of sum(O o dO), any subset: a null output is not wanted. Strides as in the problem. */
typedef struct ioattn_sdpa_gradients {
  size_t struct_size;   /**< sizeof(ioattn_sdpa_gradients) */
  void* dq;             /**< [batch, heads, n, d] */
  void* dk;             /**< [batch, kv_heads, m, d], a sum over the query heads that share it */
  void* dv;             /**< [batch, kv_heads, m, dv], likewise */
  int64_t dq_stride[3], /**< of dq: batch, head, row */
      dk_stride[3],     /**< of dk */
      dv_stride[3];     /**< of dv */
  int32_t accumulate;   /**< not 0: gradients are added to what the outputs hold */
  void* dbias;          /**< [bias_batch, bias_heads, n, m], a sum over the entries and heads that
                           share a bias */
  int64_t dbias_stride[3]; /**< of dbias */
  int32_t in_f32;          /**< not 0: the gradients of a problem in 16 bits are float, not rounded.
                              Without a meaning for IOATTN_F32, refused for IOATTN_F64. */
} ioattn_sdpa_gradients;

/** Gradients from dO [batch, heads, n, dv] and the forward pass's O and LSE; LSE is never null, O
 * may be for dv alone. Strides as for ioattn_sdpa_forward(). Given the merged O and LSE of a longer
 * sequence, the gradients over a slice of its keys are its parts: dQ of the slices add up. (Of a
 * query that sees at most 64 keys of a slice in bf16, other slices count as nothing where their
 * weights are less than 2^-19 + 2^-22 |LSE| in all, however large their values.) Weights are exp(s
 * - LSE), and LSE is rounded: where it is as large as the inverse of its type's epsilon (all keys
 * of a query have a bias of -1e9, say) weights are 1 each, not 1 / m; of IOATTN_BF16, where one
 * pass may multiply pairs and the other not, they are then off by as much as rounding changes a
 * score, about 2^-24 of it. Memory beside the outputs: O(1) in n and m per thread, and at most one
 * word per query; of a problem in 16 bits a float per query and, unless in_f32 is set or
 * memory_limit leaves no room for it, one per element of dQ; of many heads those that are in work
 * (memory_limit counts all, so that plans do not depend on threads); where dbias is rounded, m
 * floats for each of some d + dv rows per thread. Gradients in IOATTN_F16 from 65520 on become
 * infinite: scale dO, or set in_f32, where they may; a plan counts them
 * (ioattn_plan_count_overflows()). Errors as for ioattn_sdpa_forward(), and IOATTN_MEMORY_LIMIT. */
IOATTN_API ioattn_status ioattn_sdpa_backward(const ioattn_sdpa_problem* problem,
                                              const ioattn_options* options, const void* d_o,
                                              const int64_t* d_o_stride, const void* o,
                                              const int64_t* o_stride, const void* lse,
                                              const int64_t* lse_stride,
                                              const ioattn_sdpa_gradients* gradients);

/** O and LSE of the same queries over some of their keys. */
typedef struct ioattn_partial {
  const void* o;       /**< [batch, heads, n, dv]; not read if the merged O is not wanted */
  const void* lse;     /**< [batch, heads, n] */
  int64_t o_stride[3], /**< of o: batch, head, row; 0: C order */
      lse_stride[2];   /**< of lse: batch, head; 0: C order */
} ioattn_partial;

/** Sizes of what is merged. */
typedef struct ioattn_merge_shape {
  size_t struct_size; /**< sizeof(ioattn_merge_shape) */
  int64_t batch,      /**< entries */
      heads,          /**< of queries */
      n,              /**< queries of a head */
      dv;             /**< columns of O */
  ioattn_dtype dtype; /**< of inputs and outputs, but LSE, which is float in 16 bits */
} ioattn_merge_shape;

/** O and LSE over all keys from `count` parts that have seen each key once, exactly but for
 * rounding: LSE = log sum_k exp(LSE_k), O = sum_k exp(LSE_k - LSE) O_k, added in the order of the
 * parts, by blocks of 64. Where no part saw a key, and without parts, O is 0 and LSE -inf; of a
 * part whose LSE is -inf O does not count, and one of +inf makes NaN. Outputs
 * as for ioattn_sdpa_forward(); they share no element with a part. Of the options only threads
 * count.
 * Errors: IOATTN_INVALID_ARGUMENT, IOATTN_SIZE_OVERFLOW, IOATTN_OUT_OF_MEMORY. */
IOATTN_API ioattn_status ioattn_merge(const ioattn_merge_shape* shape,
                                      const ioattn_options* options, const ioattn_partial* parts,
                                      int64_t count, void* o, const int64_t* o_stride, void* lse,
                                      const int64_t* lse_stride);

/** @} */

/** @name Ring 2: plan once, execute often
 * @{ */

/** A pass of the layer problem or of SDPA. */
typedef enum ioattn_pass {
  IOATTN_FORWARD = 0, /**< O and LSE */
  IOATTN_BACKWARD = 1 /**< gradients */
} ioattn_pass;

/** Which operands are the same memory. */
typedef enum ioattn_tie {
  IOATTN_TIE_NONE = 0, /**< none */
  IOATTN_TIE_KV = 1,   /**< A2 = A3: cross-attention */
  IOATTN_TIE_ALL = 2   /**< A1 = A2 = A3: self-attention */
} ioattn_tie;

/** What is planned for: the layer problem without its memory. */
typedef struct ioattn_layer_shape {
  size_t struct_size;  /**< sizeof(ioattn_layer_shape) */
  int64_t n,           /**< rows of A1: queries */
      m,               /**< rows of A2 and A3: keys */
      d,               /**< columns of A1, A2 and A3 */
      dv;              /**< columns of Y */
  ioattn_dtype dtype;  /**< of all inputs and outputs */
  ioattn_tie tie;      /**< which operands will be the same memory */
  double scale;        /**< as in the problem */
  ioattn_mask mask;    /**< as in the problem */
  int64_t window_left, /**< as in the problem */
      window_right,    /**< as in the problem */
      batch;           /**< as in the problem */
} ioattn_layer_shape;

/** A pass of the layer problem or of SDPA, planned for one shape, or packed sequences, and a number
 * of threads. It never changes, but for what it counts on request: several threads may execute one
 * plan at once, each with a workspace of its own. To execute it as a pass of the other kind, or of
 * another problem, is IOATTN_INVALID_ARGUMENT. */
typedef struct ioattn_plan ioattn_plan;

/** Plans a pass as the one-call functions do, after a search where options.rigor asks for one. Of
 * the gradients only matters which are not null, dk and in_f32; forward they are ignored, backward
 * null means dX alone, and none at all is IOATTN_INVALID_ARGUMENT. *plan is to be destroyed. Errors
 * as for ioattn_layer_forward(); *plan is then untouched. */
IOATTN_API ioattn_status ioattn_layer_plan_create(ioattn_pass pass, const ioattn_layer_shape* shape,
                                                  const ioattn_layer_gradients* gradients,
                                                  const ioattn_options* options,
                                                  ioattn_plan** plan);

/** The plan of a text that ioattn_plan_text() printed, on this machine or another. Its instruction
 * set must be available here. Of the options only threads count and, for the M that
 * ioattn_plan_describe() tells, fast_memory_words for a plan of level "M", cache_level for one of
 * level "L3". Errors as for ioattn_sdpa_plan_parse(). */
IOATTN_API ioattn_status ioattn_layer_plan_parse(ioattn_pass pass, const ioattn_layer_shape* shape,
                                                 const ioattn_layer_gradients* gradients,
                                                 const ioattn_options* options, const char* text,
                                                 ioattn_plan** plan);

/** Null is allowed. */
IOATTN_API void ioattn_plan_destroy(ioattn_plan* plan);

/** Bytes of workspace that an execution takes, exactly, whatever the alignment of what the caller
 * supplies; of packed sequences, all that are computed at a time. (Backward, a layer whose LSE has
 * a -inf takes n numbers more from the heap.) */
IOATTN_API ioattn_status ioattn_plan_workspace_size(const ioattn_plan* plan, size_t* bytes);

/** The plan as one line, e.g. "L2:row_stream(form=g,r=448,c=64,...) > reg:avx2(6x16)". Writes at
 * most `size` bytes with the final 0; *needed (may be null) is how many it takes. A smaller buffer
 * is left alone: IOATTN_INVALID_ARGUMENT; a null buffer only asks. Of packed sequences the plans
 * behind the n x m that have them, those with the most work first: "512x512,80x96: PLAN | 7x9:
 * PLAN". */
IOATTN_API ioattn_status ioattn_plan_text(const ioattn_plan* plan, char* buffer, size_t size,
                                          size_t* needed);

/** What the plan does, as one JSON object: schedule, blocks, kernel, threads, M, predicted words by
 * phase, lower bound, multiply-adds and flops, workspace, and as "stored" what is kept in memory
 * between phases, or passes through it: of the layer problem matrices such as "S", "h" and, by the
 * schedules that store scores, "f" [n, m], of one entry. Of SDPA the blocks are told with each
 * phase, and stored are "delta", rowsum(O o dO) [heads, n], and "dQ" before it is rounded to 16
 * bits [heads, n, d], of the heads in work at a time (as many as threads take whole). Words are
 * those of the dtype: of 16 bits, a float weighs 2. "origin" is "estimate", "measure", "patient",
 * "wisdom" or, of a plan that was parsed, "text". "objective" is what the plan minimises,
 * "time", "words@L1" or "words@L2"; of a plan that was parsed null. "overflows" is what
 * ioattn_plan_count_overflows() asked for, or null. Of packed sequences words and multiply-adds are
 * sums over all "sequences", with their "queries" and "keys", the footprint is the largest, and
 * "shapes" has for each shape among them, those with the most work first, how many "sequences" have
 * it and the description of their "plan", as of one alone. The buffer as in ioattn_plan_text(). */
IOATTN_API ioattn_status ioattn_plan_describe(const ioattn_plan* plan, char* buffer, size_t size,
                                              size_t* needed);

/** From now on (`on` not 0) executions of the plan count the elements that were finite in float and
 * became infinite as they were rounded to 16 bits: in IOATTN_F16 those from 65520 on. Sums that
 * were infinite or NaN before do not count. ioattn_plan_describe() tells, as "overflows", the
 * number of "executions" since then and that of such elements of each output that is rounded, e.g.
 * {"executions": 1, "dQ": 3, "dK": 0, "dV": 0}, the same for every number of threads. Results do
 * not change. 0: they count no longer, which costs nothing. Not while the plan is executed. */
IOATTN_API ioattn_status ioattn_plan_count_overflows(ioattn_plan* plan, int32_t on);

/** The planned forward pass: O [n, dv] and LSE [n], neither of which may be null. The problem has
 * the planned sizes, dtype, scale, mask and batch, and operands planned as one memory are one. A
 * null workspace: the heap; else it overlaps no operand and no output, which is not checked. Errors
 * as for ioattn_sdpa_execute_forward(). */
IOATTN_API ioattn_status ioattn_layer_execute_forward(const ioattn_plan* plan,
                                                      const ioattn_layer_problem* problem, void* o,
                                                      int64_t o_stride, void* lse, void* workspace,
                                                      size_t workspace_size);

/** The planned gradients, neither more nor fewer, from dO, and O and LSE of the forward pass, which
 * only the schedules naive, paper_small and resident do without. Strides, workspace and errors as
 * above. */
IOATTN_API ioattn_status ioattn_layer_execute_backward(
    const ioattn_plan* plan, const ioattn_layer_problem* problem, const void* d_o,
    int64_t d_o_stride, const void* o, int64_t o_stride, const void* lse,
    const ioattn_layer_gradients* gradients, void* workspace, size_t workspace_size);

/** Plans a pass of SDPA as the one-call functions do, for the sizes, dtype, scale, mask, window,
 * offsets, starts and sizes of the bias of the problem; of other pointers it is only looked at
 * whether there is a bias. Of the gradients only matters which are not null, accumulate and in_f32;
 * forward they are ignored, backward null means dQ, dK and dV, of the dtype, not accumulated. *plan
 * is to be destroyed. Errors as for ioattn_sdpa_forward() and ioattn_sdpa_backward(); *plan is then
 * untouched.
 *
 * A plan of packed sequences is for their starts, which it keeps a copy of. Sequences of one n and
 * m are planned once, as the one-call functions do; where options.rigor asks for a search there is
 * one, of its full time, for each class of n and m (ring 4) that wisdom has no such plan for. */
IOATTN_API ioattn_status ioattn_sdpa_plan_create(ioattn_pass pass,
                                                 const ioattn_sdpa_problem* problem,
                                                 const ioattn_sdpa_gradients* gradients,
                                                 const ioattn_options* options, ioattn_plan** plan);

/** The plan of a text that ioattn_plan_text() printed for the same pass and the same set of
 * gradients, as for ioattn_layer_plan_parse(); of packed sequences that for the same n and m,
 * however often and in whatever order. It may be of other sizes, and have blocks of any: r between
 * rho and n is rounded down to a multiple of rho, lest bits depend on threads, and
 * ioattn_plan_text() tells that. Any other text is IOATTN_INVALID_ARGUMENT, an instruction set or a
 * cache level that is not here IOATTN_UNSUPPORTED. */
IOATTN_API ioattn_status ioattn_sdpa_plan_parse(ioattn_pass pass,
                                                const ioattn_sdpa_problem* problem,
                                                const ioattn_sdpa_gradients* gradients,
                                                const ioattn_options* options, const char* text,
                                                ioattn_plan** plan);

/** The planned forward pass: O [batch, heads, n, dv] and LSE [batch, heads, n], with outputs and
 * strides as for ioattn_sdpa_forward(): a null output is not wanted. The problem has the planned
 * sizes, dtype, scale, mask (with its window and offsets), starts of packed sequences and sizes of
 * a bias; its pointers and strides may be others each time. A null workspace: the heap; else it has
 * the bytes that ioattn_plan_workspace_size() tells, at any alignment, and overlaps no operand and
 * no output, which is not checked.
 *
 * Errors: IOATTN_INVALID_ARGUMENT, IOATTN_SIZE_OVERFLOW, IOATTN_OUT_OF_MEMORY; outputs are then
 * untouched. */
IOATTN_API ioattn_status ioattn_sdpa_execute_forward(const ioattn_plan* plan,
                                                     const ioattn_sdpa_problem* problem, void* o,
                                                     const int64_t* o_stride, void* lse,
                                                     const int64_t* lse_stride, void* workspace,
                                                     size_t workspace_size);

/** The planned gradients, neither more nor fewer, added to what is there if that was planned, from
 * dO, O and LSE as for ioattn_sdpa_backward(). Problem, workspace and errors as above. */
IOATTN_API ioattn_status ioattn_sdpa_execute_backward(const ioattn_plan* plan,
                                                      const ioattn_sdpa_problem* problem,
                                                      const void* d_o, const int64_t* d_o_stride,
                                                      const void* o, const int64_t* o_stride,
                                                      const void* lse, const int64_t* lse_stride,
                                                      const ioattn_sdpa_gradients* gradients,
                                                      void* workspace, size_t workspace_size);

/** @} */

/** @name Ring 3: what is here
 * @{ */

/** Of the library that runs: "0.1.0". */
IOATTN_API const char* ioattn_version(void);

/** Names of the ISAs that kernels were built for, best first; null behind the last.
 * *available (may be null) says whether this CPU has it, and of "avx512_amx" whether the kernel
 * lets this process use its tiles. */
IOATTN_API const char* ioattn_isa(int32_t index, int32_t* available);

/** The ISA that calls use: the best available one, or that of the environment variable IOATTN_ISA.
 * (Plans of SDPA may be for another where neither that nor `reproducible` is set, and the CPU is
 * sure to be faster with it, as where vectors are longer than the problem is wide.)
 * Of a CPU with AMX the first call asks the kernel for its tiles (arch_prctl()), for the whole
 * process, unless IOATTN_ISA names another ISA then. Once they are granted, sigaltstack() takes no
 * stack of less than sysconf(_SC_MINSIGSTKSZ); where a thread has one, they are refused and the
 * next ISA is the best. IOATTN_UNSUPPORTED, as of every call that plans, where IOATTN_ISA names an
 * ISA that is not here, IOATTN_INVALID_ARGUMENT where it names none. */
IOATTN_API ioattn_status ioattn_selected_isa(const char** name);

/** One cache level, as one thread of this process sees it: as hwloc finds it, or as long as the
 * environment variable IOATTN_L1, IOATTN_L2 or IOATTN_L3 says ("256k", "1M"). M is a fraction of
 * the share, 0.5 of L1 and 0.75 of L2 and L3: the rest is left to lines of other data. */
typedef struct ioattn_cache {
  size_t struct_size;   /**< sizeof(ioattn_cache), set by the caller */
  int64_t size_bytes;   /**< the whole cache */
  int64_t share_bytes;  /**< one thread's share with all allowed CPUs busy */
  int64_t words_f32;    /**< M for f32: share_bytes x fraction / 4 */
  int64_t words_f64;    /**< M for f64: share_bytes x fraction / 8 */
  int32_t line_bytes;   /**< 0: unknown */
  int32_t ways;         /**< 0: unknown or fully associative */
  int32_t sharing_cpus; /**< 0: unknown */
  const char* source;   /**< "override", "hwloc", "sysfs" or "assumed" */
} ioattn_cache;

/** Fills *cache; IOATTN_UNSUPPORTED if the level (1, 2, 3) was not found. */
IOATTN_API ioattn_status ioattn_machine_cache(int32_t level, ioattn_cache* cache);

/** Threads that affinity and CPU quota grant; at least 1. The affinity is that of the caller at the
 * call, or a millisecond before, or of the process where OpenMP binds threads (OMP_PROC_BIND);
 * quota and caches, and which CPUs share them, are as the first call of the process found them. */
IOATTN_API int32_t ioattn_machine_threads(void);

/** Algorithms that a bound holds for: all of the red-blue pebble game, or fewer. */
typedef enum ioattn_class {
  IOATTN_CLASS_PEBBLE = 0, /**< any that the game allows; "G3": with one summation tree an entry */
  IOATTN_CLASS_FMA = 1     /**< one accumulator per entry, no multiply-add done twice */
} ioattn_class;

/** Lower bound on the words that a pass of the layer problem moves between a fast memory of M words
 * and the slow one. Sizes are 1 and more. *name (may be null) names the bound: see
 * lib/theory/BOUNDS.md. */
IOATTN_API ioattn_status ioattn_layer_bound(ioattn_pass pass, ioattn_class algorithms,
                                            ioattn_tie tie, int64_t n, int64_t m, int64_t d,
                                            int64_t dv, int64_t M, double* words,
                                            const char** name);

/** @} */

/** @name Ring 4: wisdom
 * What tuning has learned: which plan was fastest, by class of problems (pass, dtype, d, dv, and n
 * and m to a power of two) and by environment (version and kernels of the library, instruction set,
 * CPU, caches), of the layer problem by tie and mask, too. Plans that leave M, the cache level and,
 * of the layer problem, the schedule to the library follow it. Another plan is another order of
 * sums, and may be for another instruction set than ioattn_selected_isa() tells, unless IOATTN_ISA
 * names one: hence other last bits; results remain the same for any number of threads and at any
 * place in a batch.
 *
 * A process reads, when it first plans, /etc/ioattn/wisdom.json and
 * $XDG_CACHE_HOME/ioattn/wisdom.json
 * (~/.cache without it), or only the file that the environment variable IOATTN_WISDOM names; "off":
 * none. What is wrong with a file is no failure: ioattn_wisdom_explain() tells. Files are written
 * by `ioattn tune` and ioattn_wisdom_export_file() alone.
 * @{ */

/** Adds the wisdom of a text, all of it or nothing: of two records of one class the one of more
 * rigor stays, then the later. A text that is no wisdom is IOATTN_INVALID_ARGUMENT, one that was
 * learned elsewhere alone IOATTN_UNSUPPORTED; the message begins with the reason's code. */
IOATTN_API ioattn_status ioattn_wisdom_import_text(const char* text);

/** The same from a file; null: the user's. */
IOATTN_API ioattn_status ioattn_wisdom_import_file(const char* path);

/** The process's wisdom as JSON. The buffer as in ioattn_plan_text(). */
IOATTN_API ioattn_status ioattn_wisdom_export_text(char* buffer, size_t size, size_t* needed);

/** Merges it into a file, which is replaced as a whole; null: the user's. Directories that are
 * missing are made, and an empty PATH.lock, by which processes take turns, stays beside it. A file
 * that cannot be read is left alone. */
IOATTN_API ioattn_status ioattn_wisdom_export_file(const char* path);

/** Forgets all of it, in this process. */
IOATTN_API ioattn_status ioattn_wisdom_forget(void);

/** What the process knows, as one JSON object: its "environment" by instruction set in use, the
 * "files" that it has read by itself, the "records" for it, how many records of which "others"
 * there are, and the "rates" that estimates are made from, each with a "code" ("ok", or why it is
 * not used) and a "message". The buffer as in ioattn_plan_text(). */
IOATTN_API ioattn_status ioattn_wisdom_explain(char* buffer, size_t size, size_t* needed);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* IOATTN_IOATTN_H */
