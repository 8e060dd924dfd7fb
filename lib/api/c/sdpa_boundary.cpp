#include "api/c/sdpa_boundary.hpp"

#include <algorithm>
#include <limits>

#include "api/array_types.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "base/checked_size.hpp"

namespace ioattn::api {
namespace {

// Query i is query i + q_offset of a longer sequence, key j is key j + k_offset. No sequence is so
// long that limits beyond `unbounded` would hide anything.
Mask shifted(Mask mask, index_t offset) {
  constexpr index_t unbounded = Mask::unbounded;
  if (mask.first > -unbounded)
    mask.first = std::clamp(mask.first + offset, -unbounded, unbounded - 1);
  if (mask.last < unbounded) mask.last = std::clamp(mask.last + offset, 1 - unbounded, unbounded);
  return mask;
}

// Of all rows of packed sequences: no query meets all keys.
Status validate_packed(const SdpaProblem& problem) {
  SdpaProblem queries = problem, keys = problem;
  queries.shape.m = std::min<index_t>(problem.shape.m, 1);
  keys.shape.n = std::min<index_t>(problem.shape.n, 1);
  const Status status = validate_problem(queries);
  return status.is_ok() ? validate_problem(keys) : status;
}

Status read_problem(const ioattn_sdpa_problem* p, Status (*validate)(const SdpaProblem&),
                    SdpaProblem* problem) {
  constexpr int64_t farthest = int64_t(1) << 59;
  Status status = check_struct(p, "problem", "ioattn_sdpa_problem");
  if (status.is_ok()) status = check_dtype(p->dtype);
  if (!status.is_ok()) return status;
  if (p->q_offset < -farthest || p->q_offset > farthest || p->k_offset < -farthest ||
      p->k_offset > farthest) {
    return invalid("q_offset and k_offset are from -2^59 to 2^59");
  }
  if (p->bias != nullptr && (p->bias_batch == 0 || p->bias_heads == 0)) {
    return invalid("bias is given, but bias_batch or bias_heads is 0");
  }
  problem->shape = {p->batch, p->heads, p->kv_heads, p->n,          p->m,
                    p->d,     p->dv,    {},          p->bias_batch, p->bias_heads};
  problem->dtype = dtype_of_number(p->dtype);
  problem->scale = p->scale;
  status = validate(*problem);
  if (status.is_ok()) status = check_mask(*p);
  if (status.is_ok()) problem->shape.mask = shifted(mask_of(*p), p->q_offset - p->k_offset);
  return status;
}

}  // namespace

// What overflows is no memory that a caller has; as the largest number it is refused.
index_t stride_or(index_t given, index_t count, index_t inner) {
  if (given != 0) return given;
  const CheckedSize product = CheckedSize(count) * CheckedSize(inner);
  return product.overflow() ? INT64_MAX : product.value();
}

Status problem_of(const ioattn_sdpa_problem* p, SdpaProblem* problem) {
  return read_problem(p, validate_problem, problem);
}

bool is_packed(const ioattn_sdpa_problem* p) {
  return p != nullptr && p->struct_size == sizeof *p &&
         (p->q_starts != nullptr || p->k_starts != nullptr);
}

ioattn_sdpa_problem unpacked(const ioattn_sdpa_problem& p) {
  ioattn_sdpa_problem whole = p;
  whole.batch = 1;
  whole.q_starts = whole.k_starts = nullptr;
  return whole;
}

Status packed_problem_of(const ioattn_sdpa_problem& p, SdpaProblem* problem) {
  if (p.batch < 0) return invalid("a size is negative");
  if (p.batch >= std::numeric_limits<int64_t>::max() / int64_t{sizeof(int64_t)}) {
    return Status::error(StatusCode::size_overflow, "batch: its starts do not fit in 64 bits");
  }
  if (p.q_starts == nullptr || p.k_starts == nullptr) {
    return invalid(p.q_starts == nullptr ? "k_starts is given, but q_starts is null"
                                         : "q_starts is given, but k_starts is null");
  }
  if (p.bias_batch != 0 && p.bias_batch != 1) {
    return invalid("bias_batch of packed sequences is not 1");
  }
  const ioattn_sdpa_problem whole = unpacked(p);
  const Status valid = read_problem(&whole, validate_packed, problem);
  if (!valid.is_ok()) return valid;
  problem->shape.mask = {};
  const auto ascend = [&](const int64_t* starts, int64_t rows) {
    return starts[0] >= 0 && starts[p.batch] <= rows &&
           std::is_sorted(starts, starts + p.batch + 1);
  };
  if (!ascend(p.q_starts, p.n)) return invalid("q_starts do not ascend from 0 to n");
  if (!ascend(p.k_starts, p.m)) return invalid("k_starts do not ascend from 0 to m");
  return valid;
}

Status sequence_of(const ioattn_sdpa_problem& p, int64_t b, Sequence* sequence) {
  ioattn_sdpa_problem one = unpacked(p);
  one.n = p.q_starts[b + 1] - p.q_starts[b];
  one.m = p.k_starts[b + 1] - p.k_starts[b];
  sequence->first_query = p.q_starts[b];
  sequence->first_key = p.k_starts[b];
  return problem_of(&one, &sequence->problem);
}

Status sequences_of(const ioattn_sdpa_problem& p, SdpaProblem* problem,
                    std::vector<Sequence>* sequences) {
  Status status = packed_problem_of(p, problem);
  if (!status.is_ok()) return status;
  sequences->resize(static_cast<std::size_t>(p.batch));
  CheckedSize work = 0;
  for (int64_t b = 0; b < p.batch && status.is_ok(); ++b) {
    Sequence& sequence = (*sequences)[static_cast<std::size_t>(b)];
    status = sequence_of(p, b, &sequence);
    if (status.is_ok()) work = work + CheckedSize(work_of(sequence.problem.shape));
  }
  if (!status.is_ok() || !(work * CheckedSize(16)).overflow()) return status;
  return Status::error(StatusCode::size_overflow,
                       "the work of all sequences does not fit in 64 bits");
}

Status check_gradients(const SdpaProblem& problem, const ioattn_sdpa_gradients* gradients) {
  const Status known = check_struct(gradients, "gradients", "ioattn_sdpa_gradients");
  if (!known.is_ok()) return known;
  if (gradients->dbias != nullptr && !problem.shape.has_bias()) {
    return invalid("dbias is wanted, but there is no bias");
  }
  if (gradients->in_f32 != 0 && problem.dtype == DType::f64) {
    return invalid("gradients in f32 of a problem in f64");
  }
  return Status::ok();
}

}  // namespace ioattn::api
