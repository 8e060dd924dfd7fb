#include "tune/measured_pass.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "api/layer.hpp"
#include "tune/command_error.hpp"

namespace ioattn::tune {
namespace {

bool is_empty(const LayerShape& shape) {
  return shape.n == 0 || shape.m == 0 || shape.d == 0 || shape.dv == 0;
}

// Equal bits; a NaN equals any NaN.
template <class T>
bool same_bits(const std::vector<T>& p, const std::vector<T>& q) {
  return p.size() == q.size() && std::equal(p.begin(), p.end(), q.begin(), [](T x, T y) {
           return std::memcmp(&x, &y, sizeof(T)) == 0 || (std::isnan(x) && std::isnan(y));
         });
}

// Runs shorter than this together are repeated, up to a few times.
constexpr double timing_budget_seconds = 0.3;
constexpr std::size_t timing_repeats = 7;

template <class Run>
double median_seconds(const Run& run) {
  using clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  double total = 0;
  do {
    const auto start = clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
    total += seconds.back();
  } while (total < timing_budget_seconds && seconds.size() < timing_repeats);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

void check_count(const instruments::IoCounter& counter, const theory::IoCost& formula,
                 const PlannedPass& planned) {
  const instruments::IoCount& count = counter.total();
  const std::string who = std::string(name_of(planned.plan.schedule)) + " (" +
                          name_of(planned.pass) + ", M = " + std::to_string(planned.M) + ")";
  if (!counter.violation().empty()) {
    throw RunError("internal error: " + who + ": " + counter.violation());
  }
  if (count.reads != formula.reads || count.writes != formula.writes ||
      count.created != formula.created || count.footprint != formula.footprint) {
    throw RunError("internal error: " + who + " did not move the words of its formula");
  }
}

// run(observer, words) fills `words`; the timed runs first, then the counted one.
template <class T, class Run>
PassReport measure(const PlannedPass& planned, bool partly_shared, RunMode how,
                   std::vector<T>* words, const Run& run) {
  PassReport report;
  report.planned = planned;
  report.threads = how.threads;
  if (how.timed) report.seconds = median_seconds([&] { require(run(nullptr, words)); });

  instruments::IoCounter counter;
  std::vector<T> counted(words->size(), std::numeric_limits<T>::quiet_NaN());
  const auto start = std::chrono::steady_clock::now();
  require(run(&counter, &counted));
  if (!how.timed) {
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    *words = std::move(counted);
  } else if (!same_bits(*words, counted)) {
    throw RunError(std::string("internal error: ") + name_of(planned.plan.schedule) + " (" +
                   name_of(planned.pass) + ") gave other bits when it was counted");
  }
  report.count = counter.total();
  report.phases = counter.phases();
  const bool empty = is_empty(planned.shape);
  const theory::IoCost formula = empty ? theory::IoCost()
                                       : theory::io_cost(planned.pass, planned.plan.schedule,
                                                         planned.shape, planned.plan.blocks)
                                             .total();
  check_count(counter, formula, planned);
  report.formula = formula.words();
  report.gflops = report.seconds > 0 ? nominal_flops(planned) / report.seconds / 1e9 : 0;
  report.overflow = empty ? 0 : overflow_words(planned);
  set_bound(partly_shared, &report);
  return report;
}

template <class T>
bool is_partly_shared(const LayerInputs<T>& inputs) {
  return same_memory(inputs.a1, inputs.a2) != same_memory(inputs.a1, inputs.a3);
}

}  // namespace

PlannedPass plan_pass(Pass pass, const LayerProblem& problem, const api::RunOptions& options) {
  LayerProblem at_least_one = problem;
  for (index_t LayerShape::*size :
       {&LayerShape::n, &LayerShape::m, &LayerShape::d, &LayerShape::dv}) {
    at_least_one.shape.*size = std::max<index_t>(problem.shape.*size, 1);
  }
  plan::PlanRequest request;
  require(api::plan_request(pass, at_least_one, options, &request));
  PlannedPass result = {pass, problem.shape, problem.dtype, request.M, {}};
  require(plan::make_plan(request, &result.plan));
  return result;
}

PlannedPass plan_pass_or_auto(Pass pass, const LayerProblem& problem,
                              const api::RunOptions& options) {
  api::RunOptions any = options;
  any.schedule.reset();
  any.literal = false;
  if (!options.schedule) return plan_pass(pass, problem, any);
  if (exists(*options.schedule, pass)) {
    try {
      return plan_pass(pass, problem, options);
    } catch (const UsageError&) {  // does not fit: any other may
    }
  }
  try {
    return plan_pass(pass, problem, any);
  } catch (const UsageError&) {
    // Whoever asked for naive or paper_small has room for n x m scores, which saves fast memory.
    if (options.schedule != Schedule::naive && options.schedule != Schedule::paper_small) throw;
    any.schedule = Schedule::paper_small;
    return plan_pass(pass, problem, any);
  }
}

PlannedPass planned(const plan::PlanRequest& request, const plan::Candidate& candidate) {
  const LayerProblem& problem = request.problem;
  return {request.pass,
          problem.shape,
          problem.dtype,
          request.M,
          {request.level, candidate.schedule, candidate.blocks, request.tile.isa, request.tile.rows,
           request.tile.cols}};
}

double nominal_flops(const PlannedPass& planned) {
  const auto real = [](index_t size) { return static_cast<double>(size); };
  const double n = real(planned.shape.n), m = real(planned.shape.m);
  const double d = real(planned.shape.d), dv = real(planned.shape.dv);
  const bool g_form =
      has_form(planned.plan.schedule, Form::h) && planned.plan.blocks.form == Form::g;
  const double values = g_form ? n * m * d + n * d * dv : n * m * dv + m * d * dv;
  const double fma = planned.pass == Pass::forward ? n * d * d + n * m * d + values
                                                   : 2 * n * d * d + 2 * n * m * d + values;
  return 2 * fma;
}

index_t overflow_words(const PlannedPass& planned) {
  const bool printed = planned.plan.schedule == Schedule::naive;
  const Blocks blocks = printed ? Blocks() : planned.plan.blocks;
  const theory::IoCost cost =
      theory::io_cost(planned.pass, planned.plan.schedule, planned.shape, blocks).total();
  return std::max<index_t>(cost.footprint - planned.M, 0);
}

void set_bound(bool partly_shared, PassReport* report) {
  const PlannedPass& planned = report->planned;
  report->has_bound = false;
  if (is_empty(planned.shape)) {
    report->reason = "a size is 0: nothing moves";
    return;
  }
  report->regime = theory::regime(planned.shape, planned.M);
  if (partly_shared) {
    report->reason = "A1 is the same memory as one of A2 and A3: no bound was proved for that";
    return;
  }
  if (report->count.footprint > planned.M) {
    report->reason = "the run keeps more than M words: bounds for M words do not hold for it";
    return;
  }
  report->bound =
      theory::lower_bound(planned.pass, theory::class_of(planned.pass, planned.plan.schedule),
                          planned.shape, planned.M);
  report->has_bound = report->bound.words > 0;
  if (!report->has_bound) {
    report->reason = "no bound was proved for this case";
  } else if (static_cast<double>(report->count.words()) < report->bound.words) {
    throw RunError(std::string("internal error: ") + name_of(planned.plan.schedule) +
                   " moved fewer words than the lower bound " + report->bound.name);
  }
}

Json io_json(const PassReport& report) {
  const instruments::IoCount& count = report.count;
  Json json;
  json["pass"] = name_of(report.planned.pass);
  json["level"] = report.planned.plan.level;
  json["M"] = report.planned.M;
  json["reads"] = count.reads;
  json["writes"] = count.writes;
  json["created"] = count.created;
  json["footprint"] = count.footprint;
  json["formula"] = report.formula;
  const bool bounded = report.has_bound;
  json["lower_bound"] = bounded ? Json(report.bound.words) : Json();
  json["bound"] = bounded ? Json(report.bound.name) : Json();
  json["reason"] = bounded ? Json() : Json(report.reason);
  json["regime"] = name_of(report.regime);
  json["phases"] = Json::array();
  for (const auto& phase : report.phases) {
    json["phases"].push_back({{"name", phase.name},
                              {"reads", phase.count.reads},
                              {"writes", phase.count.writes},
                              {"created", phase.count.created},
                              {"footprint", phase.count.footprint}});
  }
  json["overflow"] = report.overflow;
  json["schedule"] = name_of(report.planned.plan.schedule);
  json["plan"] = to_text(report.planned.plan);
  json["seconds"] = report.seconds;
  json["gflops"] = report.gflops;
  return json;
}

template <class T>
PassReport run_forward(const LayerInputs<T>& inputs, const PlannedPass& planned, RunMode how,
                       ForwardResult<T>* result) {
  const LayerShape& shape = planned.shape;
  const index_t o_words = shape.n * shape.dv;
  result->words.assign(static_cast<std::size_t>(o_words + shape.n), T(0));
  PassReport report =
      measure(planned, is_partly_shared(inputs), how, &result->words,
              [&](Observer* observer, std::vector<T>* words) {
                const MatrixView<T> o = {words->data(), shape.n, shape.dv, shape.dv};
                return api::layer_forward<T>(inputs, planned.plan, how.threads, observer, o,
                                             words->data() + o_words);
              });
  result->o = {result->words.data(), shape.n, shape.dv, shape.dv};
  result->lse = result->words.data() + o_words;
  return report;
}

template <class T>
PassReport run_backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o,
                        MatrixView<const T> o, const T* lse, const PlannedPass& planned,
                        RunMode how, std::vector<T>* dx) {
  const index_t d = planned.shape.d;
  dx->assign(static_cast<std::size_t>(d * d), T(0));
  return measure(planned, is_partly_shared(inputs), how, dx,
                 [&](Observer* observer, std::vector<T>* words) {
                   return api::layer_backward<T>(inputs, d_o, o, lse, planned.plan, how.threads,
                                                 observer, {words->data(), d, d, d});
                 });
}

#define IOATTN_INSTANTIATE(T)                                                                  \
  template PassReport run_forward(const LayerInputs<T>&, const PlannedPass&, RunMode,          \
                                  ForwardResult<T>*);                                          \
  template PassReport run_backward(const LayerInputs<T>&, MatrixView<const T>,                 \
                                   MatrixView<const T>, const T*, const PlannedPass&, RunMode, \
                                   std::vector<T>*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
