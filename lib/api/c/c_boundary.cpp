#include "api/c/c_boundary.hpp"

#include <algorithm>
#include <cstdio>

#include "api/run_options.hpp"

namespace ioattn::api {
namespace {
thread_local char last_error[Status::message_size] = "";
}  // namespace

ioattn_status report(const Status& status) {
  if (!status.is_ok()) std::snprintf(last_error, sizeof last_error, "%s", status.message());
  return static_cast<ioattn_status>(status.code());
}

const char* last_error_message() { return last_error; }

Status pass_of(const ioattn_pass& given, Pass* pass) {
  const int number = number_of(given);
  if (number != IOATTN_FORWARD && number != IOATTN_BACKWARD) return invalid("pass is unknown");
  *pass = number == IOATTN_FORWARD ? Pass::forward : Pass::backward;
  return Status::ok();
}

Status tie_of(const ioattn_tie& given, int64_t n, int64_t m, Tie* tie) {
  const int number = number_of(given);
  if (number < IOATTN_TIE_NONE || number > IOATTN_TIE_ALL) return invalid("tie is unknown");
  if (number == IOATTN_TIE_ALL && n != m) return invalid("A1 = A2 needs n = m");
  static_assert(int(Tie::none) == IOATTN_TIE_NONE && int(Tie::kv) == IOATTN_TIE_KV &&
                int(Tie::all) == IOATTN_TIE_ALL);
  *tie = static_cast<Tie>(number);
  return Status::ok();
}

Status check_dtype(const ioattn_dtype& dtype) {
  const int number = number_of(dtype);
  if (number >= IOATTN_F32 && number <= IOATTN_F16) return Status::ok();
  return invalid("dtype is neither IOATTN_F32, IOATTN_F64, IOATTN_BF16 nor IOATTN_F16");
}

DType dtype_of_number(const ioattn_dtype& dtype) {
  static_assert(int(DType::f32) == IOATTN_F32 && int(DType::f64) == IOATTN_F64 &&
                int(DType::bf16) == IOATTN_BF16 && int(DType::f16) == IOATTN_F16);
  return static_cast<DType>(number_of(dtype));
}

Status check_problem(const ioattn_layer_problem* problem) {
  Status known = check_struct(problem, "problem", "ioattn_layer_problem");
  if (known.is_ok()) known = check_dtype(problem->dtype);
  if (!known.is_ok()) return known;
  if (problem->n < 0 || problem->m < 0 || problem->d < 0 || problem->dv < 0) {
    return invalid("problem: a size is negative");
  }
  if (problem->batch < 0) return invalid("problem: batch is negative");
  return check_mask(*problem);
}

Status check_gradients(const ioattn_layer_gradients* gradients, DType dtype, int64_t d) {
  const Status known = check_struct(gradients, "gradients", "ioattn_layer_gradients");
  if (!known.is_ok()) return known;
  if (dtype == DType::f64 && gradients->in_f32 != 0) {
    return invalid("gradients: in_f32 is for problems in 16 bits");
  }
  const bool weights = gradients->dw_q != nullptr || gradients->dw_k != nullptr;
  if (!weights) return Status::ok();
  if (gradients->dk < 0) return invalid("gradients: dk is negative");
  return validate_weights(d, gradients->dk);
}

Status run_options(const ioattn_options* options, RunOptions* run) {
  if (options == nullptr) return Status::ok();
  const Status known = check_struct(options, "options", "ioattn_options");
  if (!known.is_ok()) return known;
  if (options->threads < 0) return invalid("options: threads is negative");
  if (options->cache_level < 0 || options->cache_level > 3) {
    return invalid("options: cache_level is not 0, 1, 2 or 3");
  }
  if (options->fast_memory_words < 0) return invalid("options: fast_memory_words is negative");
  if (options->memory_limit < 0) return invalid("options: memory_limit is negative");
  const int rigor = options->rigor;
  if (rigor < IOATTN_ESTIMATE || rigor > IOATTN_WISDOM_ONLY) {
    return invalid("options: rigor is none of ioattn_rigor");
  }
  if (!(options->time_limit_seconds >= 0)) {
    return invalid("options: time_limit_seconds is negative");
  }
  if (options->reproducible != 0 && rigor != IOATTN_ESTIMATE) {
    return invalid("options: reproducible plans are estimated: rigor is IOATTN_ESTIMATE");
  }
  const int64_t objective = options->objective;
  if (objective < IOATTN_TIME || objective > IOATTN_WORDS_L2) {
    return invalid("options: objective is none of ioattn_objective");
  }
  if (objective != IOATTN_TIME) {
    if (rigor != IOATTN_ESTIMATE) {
      return invalid(
          "options: only for time is there a search or wisdom: rigor is IOATTN_ESTIMATE");
    }
    const int level = objective == IOATTN_WORDS_L1 ? 1 : 2;
    if (options->cache_level != 0 && options->cache_level != level) {
      return invalid("options: cache_level is not that of the objective");
    }
  }
  static_assert(int(Objective::time) == IOATTN_TIME &&
                int(Objective::words_l1) == IOATTN_WORDS_L1 &&
                int(Objective::words_l2) == IOATTN_WORDS_L2);
  run->objective = static_cast<Objective>(objective);
  static_assert(int(wisdom::Rigor::estimate) == IOATTN_ESTIMATE &&
                int(wisdom::Rigor::measure) == IOATTN_MEASURE &&
                int(wisdom::Rigor::patient) == IOATTN_PATIENT &&
                int(wisdom::Rigor::wisdom_only) == IOATTN_WISDOM_ONLY);
  run->rigor = static_cast<wisdom::Rigor>(rigor);
  run->time_limit_seconds = options->time_limit_seconds;
  run->reproducible = options->reproducible != 0;
  run->threads = options->threads;
  if (options->cache_level > 0) run->cache_level = options->cache_level;
  // More than any problem takes that is valid, so multiples of it do not overflow.
  constexpr index_t most_words = index_t{1} << 60;
  run->M = std::min<index_t>(options->fast_memory_words, most_words);
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

}  // namespace ioattn::api
