#include "api/array_types.hpp"
#include "api/c/c_boundary.hpp"
#include "api/kernels_in_use.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "api/search/layer_search.hpp"
#include "base/aligned_buffer.hpp"
#include "machine/machine.hpp"
#include "theory/bounds.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

template <class S>
Status forward(const ioattn_layer_problem& problem, const api::RunOptions& options, void* o,
               int64_t o_stride, void* lse) {
  const LayerInputs<S> inputs = inputs_of<S>(problem);
  plan::GradientPlan plan;
  const Status status = plan_layer(problem_of(inputs), std::nullopt, options, &plan);
  if (!status.is_ok()) return status;
  return api::layer_forward<S>(inputs, plan::pass_of(plan), {api::granted_threads(options.threads)},
                               output<S>(o, problem.n, problem.dv, o_stride),
                               static_cast<Compute<S>*>(lse));
}

template <class S, class G>
Status backward(const ioattn_layer_problem& problem, const api::RunOptions& options,
                const void* d_o, int64_t d_o_stride, const void* o, int64_t o_stride,
                const void* lse, const ioattn_layer_gradients& gradients) {
  using T = Compute<S>;
  const LayerInputs<S> inputs = inputs_of<S>(problem);
  const LayerGradients<G, S> out = gradients_of<G, S>(problem, gradients);
  const GradientSet set = api::set_of(out);
  if (out.set() == GradientSet{}) return api::validate_problem(problem_of(inputs));
  plan::GradientPlan plan;
  Status status = plan_layer(problem_of(inputs), set, options, &plan);
  if (!status.is_ok()) return status;
  AlignedBuffer results;
  if (lse == nullptr && api::takes_forward_results(plan, set)) {
    const std::size_t rows = static_cast<std::size_t>(inputs.batch * problem.n);
    const std::size_t row_bytes = sizeof(T) + static_cast<std::size_t>(problem.dv) * sizeof(S);
    results = AlignedBuffer(rows * row_bytes);
    if (rows > 0 && results.data() == nullptr) {
      return Status::error(StatusCode::out_of_memory, "no memory for O and LSE");
    }
    T* lse_result = static_cast<T*>(results.data());
    void* o_result = lse_result + rows;
    api::RunOptions forward_options = options;
    forward_options.rigor = wisdom::Rigor::estimate;  // wisdom is asked for of the gradients
    // Whoever asked for stationary has room for scores in the forward pass too.
    if (plan.blocks.schedule != Schedule::stationary) forward_options.schedule.reset();
    status = forward<S>(problem, forward_options, o_result, 0, lse_result);
    // Whoever asked for stored scores has room for them here too, which saves fast memory.
    if (status.code() == StatusCode::fast_memory_too_small && stores_scores(plan.blocks.schedule)) {
      forward_options.schedule = Schedule::paper_small;
      status = forward<S>(problem, forward_options, o_result, 0, lse_result);
    }
    if (!status.is_ok()) return status;
    o = o_result;
    o_stride = 0;
    lse = lse_result;
  }
  return api::layer_gradients<S, G>(inputs, input<S>(d_o, problem.n, problem.dv, d_o_stride),
                                    input<S>(o, problem.n, problem.dv, o_stride),
                                    static_cast<const T*>(lse), plan,
                                    {api::granted_threads(options.threads)}, out);
}

}  // namespace

const char* ioattn_status_string(ioattn_status status) {
  return name_of(static_cast<StatusCode>(number_of(status)));
}

const char* ioattn_last_error(void) { return last_error_message(); }

ioattn_status ioattn_layer_forward(const ioattn_layer_problem* problem,
                                   const ioattn_options* options, void* o, int64_t o_stride,
                                   void* lse) {
  return guarded([&] {
    api::RunOptions run;
    Status status = check_problem(problem);
    if (status.is_ok()) status = run_options(options, &run);
    if (!status.is_ok()) return status;
    return with_dtype(dtype_of_number(problem->dtype), [&](auto zero) {
      return forward<decltype(zero)>(*problem, run, o, o_stride, lse);
    });
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
    if (status.is_ok()) {
      status = check_gradients(gradients, dtype_of_number(problem->dtype), problem->d);
    }
    // O without elements may be null although LSE is given.
    const bool o_has_elements = status.is_ok() && problem->n > 0 && problem->dv > 0;
    if (o_has_elements && (o == nullptr) != (lse == nullptr)) {
      status = invalid("of o and lse one is null: pass both or neither");
    }
    if (!status.is_ok()) return status;
    return with_gradient_types(dtype_of_number(problem->dtype), gradients->in_f32 != 0,
                               [&](auto zero, auto gradient) {
                                 return backward<decltype(zero), decltype(gradient)>(
                                     *problem, run, d_o, d_o_stride, o, o_stride, lse, *gradients);
                               });
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
    const Status known = check_struct(cache, "cache", "ioattn_cache");
    if (!known.is_ok()) return known;
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
    threads = granted_threads(0);
    return Status::ok();
  });
  return threads;
}

ioattn_status ioattn_layer_bound(ioattn_pass pass, ioattn_class algorithms, ioattn_tie tie,
                                 int64_t n, int64_t m, int64_t d, int64_t dv, int64_t M,
                                 double* words, const char** name) {
  return guarded([&] {
    if (words == nullptr) return invalid("words is null");
    Pass of = Pass::forward;
    Tie shared = Tie::none;
    Status status = api::pass_of(pass, &of);
    if (!status.is_ok()) return status;
    if (number_of(algorithms) < IOATTN_CLASS_PEBBLE || number_of(algorithms) > IOATTN_CLASS_FMA) {
      return invalid("class is unknown");
    }
    if (n < 1 || m < 1 || d < 1 || dv < 1 || M < 1) return invalid("a size or M is below 1");
    status = api::tie_of(tie, n, m, &shared);
    if (!status.is_ok()) return status;
    const LayerShape shape = {n, m, d, dv, shared, {}};
    status = api::validate_shape(shape);
    if (!status.is_ok()) return status;
    const theory::Bound bound = theory::lower_bound(
        of,
        algorithms == IOATTN_CLASS_PEBBLE ? theory::AlgorithmClass::P : theory::AlgorithmClass::F,
        shape, M);
    *words = bound.words;
    if (name != nullptr) *name = bound.name;
    return Status::ok();
  });
}
