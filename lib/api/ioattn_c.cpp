#include <cstdio>
#include <cstring>
#include <new>

#include "api/layer.hpp"
#include "api/session.hpp"
#include "api/validate.hpp"
#include "base/aligned_buffer.hpp"
#include "ioattn/ioattn.h"
#include "machine/machine.hpp"
#include "parallel/floating_point.hpp"
#include "theory/bounds.hpp"

namespace {

using namespace ioattn;

thread_local char last_error[256] = "";

ioattn_status report(const Status& status) {
  if (!status.is_ok()) std::snprintf(last_error, sizeof last_error, "%s", status.message());
  return static_cast<ioattn_status>(status.code());
}

Status invalid(const char* message) {
  return Status::error(StatusCode::invalid_argument, "%s", message);
}

// Runs the body of a C function: nothing is thrown to the caller, whose floating-point environment
// neither changes nor has a say in plans and results.
template <class Body>
ioattn_status guarded(Body&& body) noexcept {
  const parallel::DefaultFloatingPoint environment;
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status::error(StatusCode::out_of_memory, "out of memory"));
  } catch (...) {
    return report(Status::error(StatusCode::internal, "unexpected exception"));
  }
}

// Callers in C may pass any number; in C++ one outside an enumeration's range must not be loaded.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof value == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

template <class T>
MatrixView<const T> input(const void* data, int64_t rows, int64_t cols, int64_t stride) {
  return {static_cast<const T*>(data), rows, cols, stride == 0 ? cols : stride};
}
template <class T>
MatrixView<T> output(void* data, int64_t rows, int64_t cols, int64_t stride) {
  return {static_cast<T*>(data), rows, cols, stride == 0 ? cols : stride};
}

template <class T>
LayerInputs<T> inputs_of(const ioattn_layer_problem& p) {
  return {input<T>(p.a1, p.n, p.d, p.a1_stride), input<T>(p.a2, p.m, p.d, p.a2_stride),
          input<T>(p.a3, p.m, p.d, p.a3_stride), input<T>(p.x, p.d, p.d, p.x_stride),
          input<T>(p.y, p.d, p.dv, p.y_stride)};
}

Status check_problem(const ioattn_layer_problem* problem) {
  if (problem == nullptr) return invalid("problem is null");
  if (problem->struct_size != sizeof *problem) {
    return invalid("problem: struct_size is not sizeof(ioattn_layer_problem)");
  }
  const int dtype = number_of(problem->dtype);
  if (dtype != IOATTN_F32 && dtype != IOATTN_F64) {
    return invalid("problem: dtype is neither IOATTN_F32 nor IOATTN_F64");
  }
  if (problem->n < 0 || problem->m < 0 || problem->d < 0 || problem->dv < 0) {
    return invalid("problem: a size is negative");
  }
  return Status::ok();
}

Status run_options(const ioattn_options* options, api::RunOptions* run) {
  if (options == nullptr) return Status::ok();
  if (options->struct_size != sizeof *options) {
    return invalid("options: struct_size is not sizeof(ioattn_options)");
  }
  if (options->threads < 0) return invalid("options: threads is negative");
  if (options->cache_level < 0 || options->cache_level > 3) {
    return invalid("options: cache_level is not 0, 1, 2 or 3");
  }
  if (options->fast_memory_words < 0) return invalid("options: fast_memory_words is negative");
  if (options->memory_limit < 0) return invalid("options: memory_limit is negative");
  run->threads = options->threads;
  if (options->cache_level > 0) run->cache_level = options->cache_level;
  run->M = options->fast_memory_words;
  if (options->memory_limit > 0) run->memory_limit_bytes = options->memory_limit;
  if (options->schedule != nullptr && std::strcmp(options->schedule, "auto") != 0) {
    Schedule schedule{};
    if (!parse_schedule(options->schedule, &schedule)) {
      return Status::error(StatusCode::invalid_argument, "options: no schedule is called \"%.64s\"",
                           options->schedule);
    }
    run->schedule = schedule;
  }
  return Status::ok();
}

// What the planner is asked. Empty problems are no-ops: any plan will do.
template <class T>
Status plan_request(Pass pass, const LayerInputs<T>& inputs, const api::RunOptions& options,
                    plan::PlanRequest* request) {
  LayerProblem problem;
  problem.shape = shape_of(inputs);
  problem.dtype = dtype_of<T>::value;
  const Status status = api::validate_shape(problem.shape);
  if (!status.is_ok()) return status;
  // Sizes of 0 cost nothing; blocks are chosen for at least 1.
  for (index_t LayerShape::*size :
       {&LayerShape::n, &LayerShape::m, &LayerShape::d, &LayerShape::dv}) {
    if (problem.shape.*size == 0) problem.shape.*size = 1;
  }
  return api::plan_request(pass, problem, options, request);
}

template <class T>
Status forward(const ioattn_layer_problem& problem, const api::RunOptions& options, void* o,
               int64_t o_stride, void* lse) {
  const LayerInputs<T> inputs = inputs_of<T>(problem);
  plan::PlanRequest request;
  plan::Plan plan;
  Status status = plan_request(Pass::forward, inputs, options, &request);
  if (status.is_ok()) status = plan::make_plan(request, &plan);
  if (!status.is_ok()) return status;
  return api::layer_forward<T>(inputs, plan, api::granted_threads(options.threads), nullptr,
                               output<T>(o, problem.n, problem.dv, o_stride), static_cast<T*>(lse));
}

Status check_gradients(const ioattn_layer_gradients* gradients) {
  if (gradients == nullptr) return invalid("gradients is null");
  if (gradients->struct_size != sizeof *gradients) {
    return invalid("gradients: struct_size is not sizeof(ioattn_layer_gradients)");
  }
  const bool weights = gradients->dw_q != nullptr || gradients->dw_k != nullptr;
  if (weights && gradients->dk < 0) return invalid("gradients: dk is negative");
  return Status::ok();
}

template <class T>
LayerGradients<T> gradients_of(const ioattn_layer_problem& p, const ioattn_layer_gradients& g) {
  LayerGradients<T> out;
  out.dx = output<T>(g.dx, p.d, p.d, g.dx_stride);
  out.dy = output<T>(g.dy, p.d, p.dv, g.dy_stride);
  out.da1 = output<T>(g.da1, p.n, p.d, g.da1_stride);
  out.da2 = output<T>(g.da2, p.m, p.d, g.da2_stride);
  out.da3 = output<T>(g.da3, p.m, p.d, g.da3_stride);
  out.da = output<T>(g.da, p.m, p.d, g.da_stride);
  if (g.dk == 0) return out;
  out.dw_q = output<T>(g.dw_q, p.d, g.dk, g.dw_q_stride);
  out.dw_k = output<T>(g.dw_k, p.d, g.dk, g.dw_k_stride);
  out.w_q = input<T>(g.w_q, p.d, g.dk, g.w_q_stride);
  out.w_k = input<T>(g.w_k, p.d, g.dk, g.w_k_stride);
  return out;
}

template <class T>
Status backward(const ioattn_layer_problem& problem, const api::RunOptions& options,
                const void* d_o, int64_t d_o_stride, const void* o, int64_t o_stride,
                const void* lse, const ioattn_layer_gradients& gradients) {
  const LayerInputs<T> inputs = inputs_of<T>(problem);
  const LayerGradients<T> out = gradients_of<T>(problem, gradients);
  const GradientSet set = out.set();
  if (set == GradientSet{}) return Status::ok();
  plan::PlanRequest request;
  plan::GradientPlan plan;
  Status status = plan_request(Pass::backward, inputs, options, &request);
  if (status.is_ok()) status = plan::make_gradient_plan(request, set, &plan);
  if (!status.is_ok()) return status;
  AlignedBuffer results;
  if (lse == nullptr && api::takes_forward_results(plan, set)) {
    const int64_t words = problem.n * (problem.dv + 1);
    results = AlignedBuffer(static_cast<std::size_t>(words) * sizeof(T));
    if (words > 0 && results.data() == nullptr) {
      return Status::error(StatusCode::out_of_memory, "no memory for O and LSE");
    }
    T* o_result = static_cast<T*>(results.data());
    T* lse_result = o_result + problem.n * problem.dv;
    api::RunOptions forward_options = options;
    forward_options.schedule.reset();
    status = forward<T>(problem, forward_options, o_result, 0, lse_result);
    if (!status.is_ok()) return status;
    o = o_result;
    o_stride = 0;
    lse = lse_result;
  }
  return api::layer_gradients<T>(inputs, input<T>(d_o, problem.n, problem.dv, d_o_stride),
                                 input<T>(o, problem.n, problem.dv, o_stride),
                                 static_cast<const T*>(lse), plan,
                                 api::granted_threads(options.threads), nullptr, out);
}

}  // namespace

const char* ioattn_status_string(ioattn_status status) {
  return name_of(static_cast<StatusCode>(number_of(status)));
}

const char* ioattn_last_error(void) { return last_error; }

ioattn_status ioattn_layer_forward(const ioattn_layer_problem* problem,
                                   const ioattn_options* options, void* o, int64_t o_stride,
                                   void* lse) {
  return guarded([&] {
    api::RunOptions run;
    Status status = check_problem(problem);
    if (status.is_ok()) status = run_options(options, &run);
    if (!status.is_ok()) return status;
    return problem->dtype == IOATTN_F32 ? forward<float>(*problem, run, o, o_stride, lse)
                                        : forward<double>(*problem, run, o, o_stride, lse);
  });
}

ioattn_status ioattn_layer_backward(const ioattn_layer_problem* problem,
                                    const ioattn_options* options, const void* d_o,
                                    int64_t d_o_stride, const void* o, int64_t o_stride,
                                    const void* lse, const ioattn_layer_gradients* gradients) {
  return guarded([&] {
    api::RunOptions run;
    Status status = check_problem(problem);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) status = check_gradients(gradients);
    // O without elements may be null although LSE is given.
    const bool o_has_elements = status.is_ok() && problem->n > 0 && problem->dv > 0;
    if (o_has_elements && (o == nullptr) != (lse == nullptr)) {
      status = invalid("of o and lse one is null: pass both or neither");
    }
    if (!status.is_ok()) return status;
    return problem->dtype == IOATTN_F32
               ? backward<float>(*problem, run, d_o, d_o_stride, o, o_stride, lse, *gradients)
               : backward<double>(*problem, run, d_o, d_o_stride, o, o_stride, lse, *gradients);
  });
}

#define IOATTN_STRINGIFY(x) #x
#define IOATTN_DOTTED(a, b, c) IOATTN_STRINGIFY(a) "." IOATTN_STRINGIFY(b) "." IOATTN_STRINGIFY(c)

const char* ioattn_version(void) {
  return IOATTN_DOTTED(IOATTN_VERSION_MAJOR, IOATTN_VERSION_MINOR, IOATTN_VERSION_PATCH);
}

const char* ioattn_isa(int32_t index, int32_t* available) {
  const kernels::KernelList list = kernels::all_kernels();
  if (index < 0 || index >= list.count) return nullptr;
  const Isa isa = list.first[index]->isa;
  if (available != nullptr) {
    *available = 0;
    guarded([&] {
      *available = machine::this_machine().isa.has(isa) ? 1 : 0;
      return Status::ok();
    });
  }
  return name_of(isa);
}

ioattn_status ioattn_selected_isa(const char** name) {
  return guarded([&] {
    if (name == nullptr) return invalid("name is null");
    const kernels::Kernels* kernels = nullptr;
    const Status status = api::selected_kernels(&kernels);
    if (status.is_ok()) *name = name_of(kernels->isa);
    return status;
  });
}

ioattn_status ioattn_machine_cache(int32_t level, ioattn_cache* cache) {
  return guarded([&] {
    if (cache == nullptr) return invalid("cache is null");
    if (cache->struct_size != sizeof *cache) {
      return invalid("cache: struct_size is not sizeof(ioattn_cache)");
    }
    const machine::CacheLevel* found = machine::this_machine().cache(level);
    if (found == nullptr) {
      return Status::error(StatusCode::unsupported, "no L%d cache was found", level);
    }
    cache->size_bytes = found->size_bytes;
    cache->share_bytes = found->share_bytes;
    cache->words_f32 = machine::fast_memory(*found, DType::f32).words;
    cache->words_f64 = machine::fast_memory(*found, DType::f64).words;
    cache->line_bytes = found->line_bytes;
    cache->ways = found->ways;
    cache->sharing_cpus = found->sharing_cpus;
    cache->source = machine::name_of(found->source);
    return Status::ok();
  });
}

int32_t ioattn_machine_threads(void) {
  int32_t threads = 1;
  guarded([&] {
    threads = machine::this_machine().usable_threads;
    return Status::ok();
  });
  return threads;
}

ioattn_status ioattn_layer_bound(ioattn_pass pass, ioattn_class algorithms, ioattn_tie tie,
                                 int64_t n, int64_t m, int64_t d, int64_t dv, int64_t M,
                                 double* words, const char** name) {
  return guarded([&] {
    if (words == nullptr) return invalid("words is null");
    if (number_of(pass) < IOATTN_FORWARD || number_of(pass) > IOATTN_BACKWARD) {
      return invalid("pass is unknown");
    }
    if (number_of(algorithms) < IOATTN_CLASS_PEBBLE || number_of(algorithms) > IOATTN_CLASS_FMA) {
      return invalid("class is unknown");
    }
    if (number_of(tie) < IOATTN_TIE_NONE || number_of(tie) > IOATTN_TIE_ALL) {
      return invalid("tie is unknown");
    }
    if (n < 1 || m < 1 || d < 1 || dv < 1 || M < 1) return invalid("a size or M is below 1");
    if (tie == IOATTN_TIE_ALL && n != m) return invalid("A1 = A2 needs n = m");
    const LayerShape shape = {n, m, d, dv, static_cast<Tie>(tie)};
    const Status status = api::validate_shape(shape);
    if (!status.is_ok()) return status;
    const theory::Bound bound = theory::lower_bound(
        pass == IOATTN_FORWARD ? Pass::forward : Pass::backward,
        algorithms == IOATTN_CLASS_PEBBLE ? theory::AlgorithmClass::P : theory::AlgorithmClass::F,
        shape, M);
    *words = bound.words;
    if (name != nullptr) *name = bound.name;
    return Status::ok();
  });
}
