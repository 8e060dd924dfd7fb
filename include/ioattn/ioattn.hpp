/** @file
 * ioattn for C++17: header-only, over the C functions of ioattn.h. Failures are exceptions of type
 * ioattn::Error, inputs and outputs whose shapes do not fit together std::invalid_argument; nothing
 * else is added, and nothing is copied. */
#ifndef IOATTN_IOATTN_HPP
#define IOATTN_IOATTN_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ioattn/ioattn.h"

namespace ioattn {

/** A call that failed, with its status; what() is the message of ioattn_last_error(). */
class Error : public std::runtime_error {
 public:
  /** From the status of a call that just failed on this thread. */
  explicit Error(ioattn_status status)
      : std::runtime_error(std::string(ioattn_status_string(status)) + ": " + ioattn_last_error()),
        status_(status) {}
  ioattn_status status() const noexcept { return status_; } /**< Never IOATTN_OK. */

 private:
  ioattn_status status_;
};

/** Throws Error unless the status is IOATTN_OK. */
inline void check(ioattn_status status) {
  if (status != IOATTN_OK) throw Error(status);
}

/** The dtype of T: float, double, ioattn_bf16 or ioattn_f16. */
template <class T>
constexpr ioattn_dtype dtype_number() {
  constexpr bool bf16 = std::is_same<T, ioattn_bf16>::value;
  static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value || bf16 ||
                    std::is_same<T, ioattn_f16>::value,
                "float, double, ioattn_bf16 or ioattn_f16");
  return std::is_same<T, float>::value    ? IOATTN_F32
         : std::is_same<T, double>::value ? IOATTN_F64
         : bf16                           ? IOATTN_BF16
                                          : IOATTN_F16;
}

/** What sums and LSE of T are made in: float for 16 bits, else T. */
template <class T>
using Sum = typename std::conditional<sizeof(T) == 2, float, T>::type;

/** T where it is not to be deduced, so that what becomes one is taken for it. */
template <class T>
struct Given {
  using type = T; /**< the same */
};
/** Inputs and outputs of a problem of T: Matrix<const T> takes a Matrix<T> as well. */
template <template <class> class View, class T>
using ViewOf = View<typename Given<T>::type>;

/** A row-major matrix in memory of the caller's. T is float, double, ioattn_bf16 or ioattn_f16,
 * const for inputs. Sizes are std::int64_t: {data, rows, cols} takes no variable of another type,
 * such as std::size_t, without a cast. */
template <class T>
struct Matrix {
  T* data = nullptr;       /**< null: an output that is not wanted */
  std::int64_t rows = 0;   /**< number of rows */
  std::int64_t cols = 0;   /**< elements of a row */
  std::int64_t stride = 0; /**< elements from row to row */

  Matrix() = default;
  /** Rows that follow each other, unless a stride is given. */
  Matrix(T* values, std::int64_t row_count, std::int64_t col_count, std::int64_t row_stride = 0)
      : data(values),
        rows(row_count),
        cols(col_count),
        stride(row_stride == 0 ? col_count : row_stride) {}
  /** A matrix to read from. */
  operator Matrix<const T>() const { return {data, rows, cols, stride}; }
};

/** Throws std::invalid_argument if the matrix has data, and another shape. */
template <class T>
void check_shape(const char* name, const Matrix<T>& matrix, std::int64_t rows, std::int64_t cols) {
  if (matrix.data == nullptr || (matrix.rows == rows && matrix.cols == cols)) return;
  throw std::invalid_argument("ioattn: " + std::string(name) + " is " +
                              std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) +
                              ", not " + std::to_string(rows) + " x " + std::to_string(cols));
}

/** How to run; the defaults are those of ioattn_options. */
struct Options {
  int threads = 0;                          /**< at most so many; 0: all that are granted */
  int cache_level = 0;                      /**< 1, 2 or 3; 0: 2 */
  std::int64_t fast_memory = 0;             /**< M in words, exact; 0: from the machine */
  std::int64_t memory_limit = 0;            /**< bytes of scratch memory; 0: O(n d), never n x m */
  std::string schedule;                     /**< a schedule's name; empty: the planner chooses */
  ioattn_rigor rigor = IOATTN_ESTIMATE;     /**< how a plan is found */
  double time_limit_seconds = 0;            /**< of a search, where shorter; 0: that of the rigor */
  bool reproducible = false;                /**< wisdom is not used */
  ioattn_objective objective = IOATTN_TIME; /**< what the plan minimises */

  /** For the C functions; valid while this object is unchanged. */
  ioattn_options c() const {
    ioattn_options options = {};
    options.struct_size = sizeof options;
    options.threads = threads;
    options.cache_level = cache_level;
    options.fast_memory_words = fast_memory;
    options.memory_limit = memory_limit;
    options.schedule = schedule.empty() ? nullptr : schedule.c_str();
    options.rigor = rigor;
    options.time_limit_seconds = time_limit_seconds;
    options.reproducible = reproducible ? 1 : 0;
    options.objective = objective;
    return options;
  }
};

/** Inputs of the layer problem (ioattn.h). Operands that are the same memory are recognised. */
template <class T>
struct Layer {
  Matrix<const T> a1;                  /**< [n, d] */
  Matrix<const T> a2;                  /**< [m, d] */
  Matrix<const T> a3;                  /**< [m, d] */
  Matrix<const T> x;                   /**< [d, d] */
  Matrix<const T> y;                   /**< [d, dv] */
  double scale = 1;                    /**< of the scores; 0: 1 */
  ioattn_mask mask = IOATTN_MASK_NONE; /**< which keys a query sees */
  std::int64_t window_left = -1;       /**< of window masks: keys before a query's own; -1: all */
  std::int64_t window_right = -1;      /**< keys after it; -1: all */
  std::int64_t batch =
      1; /**< entries of a1, a2 and a3, whose rows are those of one entry and follow
            each other; so do the rows of O, LSE, dO and the gradients of the A's */

  /** For the C functions. Throws std::invalid_argument if the shapes do not fit together. */
  ioattn_layer_problem c() const {
    ioattn_layer_problem p = {};
    p.struct_size = sizeof p;
    p.n = a1.rows;
    p.m = a2.rows;
    p.d = a1.cols;
    p.dv = y.cols;
    if (a2.cols != p.d || a3.rows != p.m || a3.cols != p.d || x.rows != p.d || x.cols != p.d ||
        y.rows != p.d) {
      throw std::invalid_argument("ioattn::Layer: the shapes of the inputs do not fit together");
    }
    p.dtype = dtype_number<T>();
    p.a1 = a1.data;
    p.a2 = a2.data;
    p.a3 = a3.data;
    p.x = x.data;
    p.y = y.data;
    p.a1_stride = a1.stride;
    p.a2_stride = a2.stride;
    p.a3_stride = a3.stride;
    p.x_stride = x.stride;
    p.y_stride = y.stride;
    p.scale = scale;
    p.mask = mask;
    p.window_left = window_left;
    p.window_right = window_right;
    p.batch = batch;
    return p;
  }
  /** Throws std::invalid_argument unless these have the shape of O; null: there is none. */
  void check_results(const Matrix<const T>& o, const Matrix<const T>& d_o = {}) const {
    check_shape("O", o, a1.rows, y.cols);
    check_shape("dO", d_o, a1.rows, y.cols);
  }
};

/** Gradients, any subset (ioattn_layer_gradients): outputs whose data are null are not wanted. W:
 * of the weights and all inputs; T is W or, where W has 16 bits, float. */
template <class T, class W = T>
struct LayerGradients {
  static_assert(std::is_same<T, W>::value || std::is_same<T, Sum<W>>::value,
                "W, or float for 16 bits");
  Matrix<T> dx;        /**< [d, d] */
  Matrix<T> dy;        /**< [d, dv] */
  Matrix<T> da1;       /**< [n, d] */
  Matrix<T> da2;       /**< [m, d] */
  Matrix<T> da3;       /**< [m, d] */
  Matrix<T> da;        /**< [m, d], the sum over operands that are one memory */
  Matrix<T> dw_q;      /**< [d, dk] */
  Matrix<T> dw_k;      /**< [d, dk] */
  Matrix<const W> w_q; /**< [d, dk], read for dw_k */
  Matrix<const W> w_k; /**< [d, dk], read for dw_q */

  /** For the C functions. */
  ioattn_layer_gradients c() const {
    ioattn_layer_gradients g = {};
    g.struct_size = sizeof g;
    set(dx, &g.dx, &g.dx_stride);
    set(dy, &g.dy, &g.dy_stride);
    set(da1, &g.da1, &g.da1_stride);
    set(da2, &g.da2, &g.da2_stride);
    set(da3, &g.da3, &g.da3_stride);
    set(da, &g.da, &g.da_stride);
    set(dw_q, &g.dw_q, &g.dw_q_stride);
    set(dw_k, &g.dw_k, &g.dw_k_stride);
    g.w_q = w_q.data;
    g.w_k = w_k.data;
    g.w_q_stride = w_q.stride;
    g.w_k_stride = w_k.stride;
    g.dk = dw_q.data != nullptr ? dw_q.cols : dw_k.cols;
    g.in_f32 = std::is_same<T, float>::value ? 1 : 0;
    return g;
  }
  /** For the C functions, with the inputs. Throws std::invalid_argument if a shape does not fit
   * them. */
  ioattn_layer_gradients c(const ioattn_layer_problem& p) const {
    check_shape("dX", dx, p.d, p.d);
    check_shape("dY", dy, p.d, p.dv);
    check_shape("dA1", da1, p.n, p.d);
    check_shape("dA2", da2, p.m, p.d);
    check_shape("dA3", da3, p.m, p.d);
    check_shape("dA", da, p.m, p.d);
    const ioattn_layer_gradients g = c();
    check_shape("dW_Q", dw_q, p.d, g.dk);
    check_shape("dW_K", dw_k, p.d, g.dk);
    if (dw_q.data != nullptr) check_shape("W_K", w_k, p.d, g.dk);
    if (dw_k.data != nullptr) check_shape("W_Q", w_q, p.d, g.dk);
    return g;
  }

 private:
  static void set(const Matrix<T>& output, void** data, std::int64_t* stride) {
    *data = output.data;
    *stride = output.stride;
  }
};

/** O [n, dv] and LSE [n]; outputs whose data are null are not wanted. Throws std::invalid_argument
 * if a shape does not fit the others, as all that take inputs do. */
template <class T>
void forward(const Layer<T>& layer, ViewOf<Matrix, T> o, Sum<T>* lse, const Options& options = {}) {
  const ioattn_layer_problem problem = layer.c();
  layer.check_results(o);
  const ioattn_options c_options = options.c();
  check(ioattn_layer_forward(&problem, &c_options, o.data, o.stride, lse));
}

/** Gradients from dO, and O and LSE of the forward pass (both null: computed first). */
template <class T, class G>
void backward(const Layer<T>& layer, ViewOf<Matrix, const T> d_o, ViewOf<Matrix, const T> o,
              const Sum<T>* lse, const LayerGradients<G, T>& gradients,
              const Options& options = {}) {
  const ioattn_layer_problem problem = layer.c();
  layer.check_results(o, d_o);
  const ioattn_options c_options = options.c();
  const ioattn_layer_gradients c_gradients = gradients.c(problem);
  check(ioattn_layer_backward(&problem, &c_options, d_o.data, d_o.stride, o.data, o.stride, lse,
                              &c_gradients));
}

/** Text that function(arguments..., buffer, size, needed) writes. */
template <class Function, class... Arguments>
std::string text_of(Function function, const Arguments&... arguments) {
  std::size_t needed = 0;
  check(function(arguments..., nullptr, 0, &needed));
  for (;;) {
    std::string text(needed, '\0');
    const ioattn_status status = function(arguments..., &text[0], text.size(), &needed);
    if (needed > text.size()) continue;  // it has grown since: counts of executions do
    check(status);
    text.resize(needed - 1);  // without the final 0
    return text;
  }
}

/** What plans have in common. */
class PlanHandle {
 public:
  /** Bytes of workspace that an execution takes. */
  std::size_t workspace_size() const {
    std::size_t bytes = 0;
    check(ioattn_plan_workspace_size(plan_, &bytes));
    return bytes;
  }
  PlanHandle(const PlanHandle&) = delete;            /**< A plan has one owner. */
  PlanHandle& operator=(const PlanHandle&) = delete; /**< A plan has one owner. */
  /** The plan as one line. */
  std::string text() const { return text_of(ioattn_plan_text, plan_); }
  /** What the plan does, as a JSON object. */
  std::string describe() const { return text_of(ioattn_plan_describe, plan_); }
  /** Executions count results that overflow in 16 bits, and describe() tells. */
  void count_overflows(bool on = true) { check(ioattn_plan_count_overflows(plan_, on ? 1 : 0)); }

 protected:
  PlanHandle() = default;
  ~PlanHandle() { ioattn_plan_destroy(plan_); }
  PlanHandle(PlanHandle&& other) noexcept
      : plan_(std::exchange(other.plan_, nullptr)) {} /**< Moves. */
  /** Moves. */
  PlanHandle& operator=(PlanHandle&& other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }

  ioattn_plan* plan_ = nullptr; /**< owned */
};

/** A plan for layers of one shape, which several threads may execute at once. */
template <class T>
class LayerPlan : public PlanHandle {
 public:
  /** The forward pass of layers of this shape; which operands are one memory matters too, and those
   * without data are none. */
  static LayerPlan forward(const Layer<T>& layer, const Options& options = {}) {
    return LayerPlan(IOATTN_FORWARD, layer, nullptr, options);
  }
  /** These gradients: of the matrices only matters whether their data are null, and dk. */
  template <class G>
  static LayerPlan backward(const Layer<T>& layer, const LayerGradients<G, T>& gradients,
                            const Options& options = {}) {
    const ioattn_layer_gradients wanted = gradients.c();
    return LayerPlan(IOATTN_BACKWARD, layer, &wanted, options);
  }

  /** The forward pass. Without a workspace the heap serves. */
  void execute_forward(const Layer<T>& layer, Matrix<T> o, Sum<T>* lse, void* workspace = nullptr,
                       std::size_t workspace_size = 0) const {
    const ioattn_layer_problem problem = layer.c();
    layer.check_results(o);
    check(ioattn_layer_execute_forward(plan_, &problem, o.data, o.stride, lse, workspace,
                                       workspace_size));
  }
  /** The planned gradients. */
  template <class G>
  void execute_backward(const Layer<T>& layer, Matrix<const T> d_o, Matrix<const T> o,
                        const Sum<T>* lse, const LayerGradients<G, T>& gradients,
                        void* workspace = nullptr, std::size_t workspace_size = 0) const {
    const ioattn_layer_problem problem = layer.c();
    layer.check_results(o, d_o);
    const ioattn_layer_gradients c_gradients = gradients.c(problem);
    check(ioattn_layer_execute_backward(plan_, &problem, d_o.data, d_o.stride, o.data, o.stride,
                                        lse, &c_gradients, workspace, workspace_size));
  }

 private:
  LayerPlan(ioattn_pass pass, const Layer<T>& layer, const ioattn_layer_gradients* gradients,
            const Options& options) {
    const ioattn_layer_problem problem = layer.c();
    ioattn_layer_shape shape = {};
    shape.struct_size = sizeof shape;
    shape.n = problem.n;
    shape.m = problem.m;
    shape.d = problem.d;
    shape.dv = problem.dv;
    shape.dtype = problem.dtype;
    shape.scale = problem.scale;
    shape.mask = problem.mask;
    shape.window_left = problem.window_left;
    shape.window_right = problem.window_right;
    shape.batch = problem.batch;
    const auto stride = [&](std::int64_t given) { return given == 0 ? problem.d : given; };
    if (problem.a2 != nullptr && problem.a2 == problem.a3 &&
        stride(problem.a2_stride) == stride(problem.a3_stride)) {
      const bool all = problem.a1 == problem.a2 && problem.n == problem.m &&
                       stride(problem.a1_stride) == stride(problem.a2_stride);
      shape.tie = all ? IOATTN_TIE_ALL : IOATTN_TIE_KV;
    }
    const ioattn_options c_options = options.c();
    check(ioattn_layer_plan_create(pass, &shape, gradients, &c_options, &plan_));
  }
};

/** Matrices by batch entry and head, in memory of the caller's, with unit stride within a row. T is
 * float, double, ioattn_bf16 or ioattn_f16, const for inputs. Sizes are as those of Matrix. */
template <class T>
struct Tensor {
  T* data = nullptr;                   /**< null: an output that is not wanted */
  std::int64_t batch = 1;              /**< entries */
  std::int64_t heads = 1;              /**< heads of an entry */
  std::int64_t rows = 0;               /**< rows of a head */
  std::int64_t cols = 0;               /**< elements of a row */
  std::int64_t strides[3] = {0, 0, 0}; /**< of batch, head, row; 0: as in C order */

  Tensor() = default;
  /** In C order: [batch, heads, rows, cols]. */
  Tensor(T* values, std::int64_t batch_size, std::int64_t head_count, std::int64_t row_count,
         std::int64_t col_count)
      : data(values), batch(batch_size), heads(head_count), rows(row_count), cols(col_count) {}
  /** With strides of batch, head and row. */
  Tensor(T* values, std::int64_t batch_size, std::int64_t head_count, std::int64_t row_count,
         std::int64_t col_count, std::int64_t batch_stride, std::int64_t head_stride,
         std::int64_t row_stride)
      : Tensor(values, batch_size, head_count, row_count, col_count) {
    strides[0] = batch_stride;
    strides[1] = head_stride;
    strides[2] = row_stride;
  }
  /** [batch, rows, heads, cols]: the heads of a row follow each other. */
  static Tensor bshd(T* values, std::int64_t batch_size, std::int64_t row_count,
                     std::int64_t head_count, std::int64_t col_count) {
    return Tensor(values, batch_size, head_count, row_count, col_count,
                  row_count * head_count * col_count, col_count, head_count * col_count);
  }
  /** A tensor to read from. */
  operator Tensor<const T>() const {
    return Tensor<const T>(data, batch, heads, rows, cols, strides[0], strides[1], strides[2]);
  }
};

/** Throws std::invalid_argument if the tensor has data, and another shape. */
template <class T>
void check_shape(const char* name, const Tensor<T>& tensor, std::int64_t batch, std::int64_t heads,
                 std::int64_t rows, std::int64_t cols) {
  if (tensor.data != nullptr && (tensor.batch != batch || tensor.heads != heads)) {
    throw std::invalid_argument("ioattn: " + std::string(name) + " has " +
                                std::to_string(tensor.batch) + " x " +
                                std::to_string(tensor.heads) + " heads, not " +
                                std::to_string(batch) + " x " + std::to_string(heads));
  }
  check_shape(name, Matrix<T>(tensor.data, tensor.rows, tensor.cols), rows, cols);
}

/** Inputs of scaled dot-product attention (ioattn_sdpa_problem). */
template <class T>
struct Sdpa {
  Tensor<const T> q;                   /**< [batch, heads, n, d] */
  Tensor<const T> k;                   /**< [batch, kv_heads, m, d] */
  Tensor<const T> v;                   /**< [batch, kv_heads, m, dv] */
  double scale = 0;                    /**< of the scores; 0: 1 / sqrt(d) */
  ioattn_mask mask = IOATTN_MASK_NONE; /**< which keys a query sees */
  std::int64_t window_left = -1;       /**< of window masks: keys before a query's own; -1: all */
  std::int64_t window_right = -1;      /**< keys after it; -1: all */
  std::int64_t q_offset = 0;           /**< the mask takes query i for i + q_offset */
  std::int64_t k_offset = 0;           /**< the mask takes key j for j + k_offset */
  std::vector<std::int64_t> q_starts;  /**< of packed sequences, with 1 more than there are; empty:
                                          none are packed */
  std::vector<std::int64_t> k_starts;  /**< as many */
  Tensor<const T> bias; /**< [1 or batch, 1 or heads, n, m], added to the scaled scores;
                           null: none */

  /** For the C functions. Throws std::invalid_argument if the shapes do not fit together. */
  ioattn_sdpa_problem c() const {
    ioattn_sdpa_problem p = {};
    p.struct_size = sizeof p;
    p.batch = q.batch;
    p.heads = q.heads;
    p.kv_heads = k.heads;
    p.n = q.rows;
    p.m = k.rows;
    p.d = q.cols;
    p.dv = v.cols;
    if (k.batch != p.batch || v.batch != p.batch || v.heads != p.kv_heads || k.cols != p.d ||
        v.rows != p.m) {
      throw std::invalid_argument("ioattn::Sdpa: the shapes of the inputs do not fit together");
    }
    p.dtype = dtype_number<T>();
    p.q = q.data;
    p.k = k.data;
    p.v = v.data;
    for (int i = 0; i < 3; ++i) {
      p.q_stride[i] = q.strides[i];
      p.k_stride[i] = k.strides[i];
      p.v_stride[i] = v.strides[i];
    }
    p.scale = scale;
    p.mask = mask;
    p.window_left = window_left;
    p.window_right = window_right;
    p.q_offset = q_offset;
    p.k_offset = k_offset;
    if (bias.data != nullptr) {
      if (bias.rows != p.n || bias.cols != p.m) {
        throw std::invalid_argument("ioattn::Sdpa: the bias is not n x m");
      }
      p.bias = bias.data;
      p.bias_batch = bias.batch;
      p.bias_heads = bias.heads;
      for (int i = 0; i < 3; ++i) p.bias_stride[i] = bias.strides[i];
    }
    if (q_starts.size() != k_starts.size() || (!q_starts.empty() && p.batch != 1)) {
      throw std::invalid_argument("ioattn::Sdpa: the starts of the sequences do not fit together");
    }
    if (q_starts.empty()) return p;
    p.batch = static_cast<std::int64_t>(q_starts.size()) - 1;
    p.q_starts = q_starts.data();
    p.k_starts = k_starts.data();
    return p;
  }
  /** Throws std::invalid_argument unless these have the shapes of O, LSE and O; null: there is
   * none.
   */
  void check_results(const Tensor<const T>& o, const Tensor<const Sum<T>>& lse,
                     const Tensor<const T>& d_o = {}) const {
    check_shape("O", o, q.batch, q.heads, q.rows, v.cols);
    check_shape("LSE", lse, q.batch, q.heads, 1, q.rows);
    check_shape("dO", d_o, q.batch, q.heads, q.rows, v.cols);
  }
};

/** Gradients, any subset (ioattn_sdpa_gradients): outputs whose data are null are not wanted. T is
 * that of the problem or, where that has 16 bits, float. */
template <class T>
struct SdpaGradients {
  Tensor<T> dq;            /**< [batch, heads, n, d] */
  Tensor<T> dk;            /**< [batch, kv_heads, m, d] */
  Tensor<T> dv;            /**< [batch, kv_heads, m, dv] */
  bool accumulate = false; /**< added to what the outputs hold */
  Tensor<T> dbias;         /**< [1 or batch, 1 or heads, n, m], as the bias */

  /** For the C functions, of a problem of S. */
  template <class S>
  ioattn_sdpa_gradients c() const {
    static_assert(std::is_same<T, S>::value || std::is_same<T, Sum<S>>::value,
                  "gradients are of the problem's type or, where that has 16 bits, float");
    ioattn_sdpa_gradients g = {};
    g.struct_size = sizeof g;
    g.dq = dq.data;
    g.dk = dk.data;
    g.dv = dv.data;
    for (int i = 0; i < 3; ++i) {
      g.dq_stride[i] = dq.strides[i];
      g.dk_stride[i] = dk.strides[i];
      g.dv_stride[i] = dv.strides[i];
    }
    g.accumulate = accumulate ? 1 : 0;
    g.dbias = dbias.data;
    for (int i = 0; i < 3; ++i) g.dbias_stride[i] = dbias.strides[i];
    g.in_f32 = std::is_same<T, float>::value ? 1 : 0;
    return g;
  }
  /** For the C functions, with the inputs. Throws std::invalid_argument if a shape does not fit
   * them. */
  template <class S>
  ioattn_sdpa_gradients c(const Sdpa<S>& of) const {
    check_shape("dQ", dq, of.q.batch, of.q.heads, of.q.rows, of.q.cols);
    check_shape("dK", dk, of.k.batch, of.k.heads, of.k.rows, of.k.cols);
    check_shape("dV", dv, of.v.batch, of.v.heads, of.v.rows, of.v.cols);
    check_shape("dBias", dbias, of.bias.batch, of.bias.heads, of.q.rows, of.k.rows);
    return c<S>();
  }
};

/** O [batch, heads, n, dv] and LSE [batch, heads, n], whose rows are columns 0 ... n - 1 of a
 * tensor with one row a head; outputs whose data are null are not wanted. */
template <class T>
void forward(const Sdpa<T>& sdpa, ViewOf<Tensor, T> o, ViewOf<Tensor, Sum<T>> lse,
             const Options& options = {}) {
  const ioattn_sdpa_problem problem = sdpa.c();
  sdpa.check_results(o, lse);
  const ioattn_options c_options = options.c();
  check(ioattn_sdpa_forward(&problem, &c_options, o.data, o.strides, lse.data, lse.strides));
}

/** Gradients from dO, and O and LSE of the forward pass. G is T or, where T has 16 bits, float. */
template <class T, class G>
void backward(const Sdpa<T>& sdpa, ViewOf<Tensor, const T> d_o, ViewOf<Tensor, const T> o,
              ViewOf<Tensor, const Sum<T>> lse, const SdpaGradients<G>& gradients,
              const Options& options = {}) {
  const ioattn_sdpa_problem problem = sdpa.c();
  sdpa.check_results(o, lse, d_o);
  const ioattn_options c_options = options.c();
  const ioattn_sdpa_gradients c_gradients = gradients.c(sdpa);
  check(ioattn_sdpa_backward(&problem, &c_options, d_o.data, d_o.strides, o.data, o.strides,
                             lse.data, lse.strides, &c_gradients));
}

/** A plan of scaled dot-product attention, packed or not, which several threads may execute at
 * once. One of packed sequences keeps a copy of their starts. */
template <class T>
class SdpaPlan : public PlanHandle {
 public:
  /** The forward pass of problems like this: of its tensors count the sizes, and whether there is a
   * bias. */
  static SdpaPlan forward(const Sdpa<T>& sdpa, const Options& options = {}) {
    return SdpaPlan(IOATTN_FORWARD, sdpa, nullptr, options);
  }
  /** These gradients: of the tensors only matters whether their data are null, and accumulate. */
  template <class G>
  static SdpaPlan backward(const Sdpa<T>& sdpa, const SdpaGradients<G>& gradients,
                           const Options& options = {}) {
    const ioattn_sdpa_gradients wanted = gradients.template c<T>();
    return SdpaPlan(IOATTN_BACKWARD, sdpa, &wanted, options);
  }

  /** The forward pass. Without a workspace the heap serves. */
  void execute_forward(const Sdpa<T>& sdpa, Tensor<T> o, Tensor<Sum<T>> lse,
                       void* workspace = nullptr, std::size_t workspace_size = 0) const {
    const ioattn_sdpa_problem problem = sdpa.c();
    sdpa.check_results(o, lse);
    check(ioattn_sdpa_execute_forward(plan_, &problem, o.data, o.strides, lse.data, lse.strides,
                                      workspace, workspace_size));
  }
  /** The planned gradients. */
  template <class G>
  void execute_backward(const Sdpa<T>& sdpa, Tensor<const T> d_o, Tensor<const T> o,
                        Tensor<const Sum<T>> lse, const SdpaGradients<G>& gradients,
                        void* workspace = nullptr, std::size_t workspace_size = 0) const {
    const ioattn_sdpa_problem problem = sdpa.c();
    sdpa.check_results(o, lse, d_o);
    const ioattn_sdpa_gradients c_gradients = gradients.c(sdpa);
    check(ioattn_sdpa_execute_backward(plan_, &problem, d_o.data, d_o.strides, o.data, o.strides,
                                       lse.data, lse.strides, &c_gradients, workspace,
                                       workspace_size));
  }

 private:
  SdpaPlan(ioattn_pass pass, const Sdpa<T>& sdpa, const ioattn_sdpa_gradients* gradients,
           const Options& options) {
    const ioattn_sdpa_problem problem = sdpa.c();
    const ioattn_options c_options = options.c();
    check(ioattn_sdpa_plan_create(pass, &problem, gradients, &c_options, &plan_));
  }
};

/** O and LSE over some of the keys: [batch, heads, n, dv] and [batch, heads, 1, n]. */
template <class T>
struct Partial {
  Tensor<const T> o;        /**< of these keys alone */
  Tensor<const Sum<T>> lse; /**< of these keys alone */
};

/** O and LSE over all keys from parts that have seen each key once (ioattn_merge). Throws
 * std::invalid_argument if their shapes do not fit together. */
template <class T>
void merge(const std::vector<Partial<T>>& parts, ViewOf<Tensor, T> o, ViewOf<Tensor, Sum<T>> lse,
           const Options& options = {}) {
  ioattn_merge_shape shape = {};
  shape.struct_size = sizeof shape;
  const bool of_o = lse.data == nullptr;
  shape.batch = of_o ? o.batch : lse.batch;
  shape.heads = of_o ? o.heads : lse.heads;
  shape.n = of_o ? o.rows : lse.cols;
  shape.dv = o.cols;
  shape.dtype = dtype_number<T>();
  check_shape("O", o, shape.batch, shape.heads, shape.n, shape.dv);
  check_shape("LSE", lse, shape.batch, shape.heads, 1, shape.n);
  std::vector<ioattn_partial> c_parts;
  for (const Partial<T>& part : parts) {
    if (o.data != nullptr) {
      check_shape("O of a part", part.o, shape.batch, shape.heads, shape.n, shape.dv);
    }
    check_shape("LSE of a part", part.lse, shape.batch, shape.heads, 1, shape.n);
    ioattn_partial c_part = {};
    c_part.o = part.o.data;
    c_part.lse = part.lse.data;
    for (int i = 0; i < 3; ++i) c_part.o_stride[i] = part.o.strides[i];
    for (int i = 0; i < 2; ++i) c_part.lse_stride[i] = part.lse.strides[i];
    c_parts.push_back(c_part);
  }
  const ioattn_options c_options = options.c();
  check(ioattn_merge(&shape, &c_options, c_parts.data(), static_cast<std::int64_t>(c_parts.size()),
                     o.data, o.strides, lse.data, lse.strides));
}

/** Of the library that runs: "0.1.0". */
inline std::string version() { return ioattn_version(); }

/** The instruction set that calls use. */
inline std::string selected_isa() {
  const char* name = nullptr;
  check(ioattn_selected_isa(&name));
  return name;
}

/** One cache level, as one thread of this process sees it. */
inline ioattn_cache cache(int level) {
  ioattn_cache found = {};
  found.struct_size = sizeof found;
  check(ioattn_machine_cache(level, &found));
  return found;
}

/** Threads that affinity and CPU quota grant. */
inline int threads() { return ioattn_machine_threads(); }

/** A lower bound on moved words and its name (ioattn_layer_bound()). */
inline std::pair<double, std::string> layer_bound(ioattn_pass pass, ioattn_class algorithms,
                                                  ioattn_tie tie, std::int64_t n, std::int64_t m,
                                                  std::int64_t d, std::int64_t dv, std::int64_t M) {
  double words = 0;
  const char* name = nullptr;
  check(ioattn_layer_bound(pass, algorithms, tie, n, m, d, dv, M, &words, &name));
  return {words, name};
}

/** What tuning has learned, of this process (ioattn.h, ring 4). */
namespace wisdom {

/** Adds the wisdom of a text, all of it or nothing. */
inline void import_text(const std::string& text) { check(ioattn_wisdom_import_text(text.c_str())); }
/** The same from a file; empty: the user's. */
inline void import_file(const std::string& path = {}) {
  check(ioattn_wisdom_import_file(path.empty() ? nullptr : path.c_str()));
}
/** As JSON. */
inline std::string export_text() { return text_of(ioattn_wisdom_export_text); }
/** Merges it into a file; empty: the user's. */
inline void export_file(const std::string& path = {}) {
  check(ioattn_wisdom_export_file(path.empty() ? nullptr : path.c_str()));
}
/** Forgets all of it, in this process. */
inline void forget() { check(ioattn_wisdom_forget()); }
/** What is known, and what is not used and why, as a JSON object. */
inline std::string explain() { return text_of(ioattn_wisdom_explain); }

}  // namespace wisdom

}  // namespace ioattn

#endif  // IOATTN_IOATTN_HPP
