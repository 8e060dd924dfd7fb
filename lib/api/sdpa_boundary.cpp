#include "api/sdpa_boundary.hpp"

#include "base/checked_size.hpp"

namespace ioattn::api {
namespace {

// Query i is query i + q_offset of a longer sequence, key j is key j + k_offset.
Mask shifted(Mask mask, index_t offset) {
  if (mask.first > -Mask::unbounded) mask.first += offset;
  if (mask.last < Mask::unbounded) mask.last += offset;
  return mask;
}

}  // namespace

// What overflows is no memory that a caller has; as the largest number it is refused.
index_t stride_or(index_t given, index_t count, index_t inner) {
  if (given != 0) return given;
  const CheckedSize product = CheckedSize(count) * CheckedSize(inner);
  return product.overflow() ? INT64_MAX : product.value();
}

Status check_dtype(const ioattn_dtype& dtype) {
  const int number = number_of(dtype);
  if (number == IOATTN_F32 || number == IOATTN_F64) return Status::ok();
  return invalid("dtype is neither IOATTN_F32 nor IOATTN_F64");
}

DType dtype_of_number(const ioattn_dtype& dtype) {
  return number_of(dtype) == IOATTN_F32 ? DType::f32 : DType::f64;
}

Status problem_of(const ioattn_sdpa_problem* p, SdpaProblem* problem) {
  constexpr int64_t farthest = int64_t(1) << 59;
  if (p == nullptr) return invalid("problem is null");
  if (p->struct_size != sizeof *p) {
    return invalid("problem: struct_size is not sizeof(ioattn_sdpa_problem)");
  }
  if (const Status known = check_dtype(p->dtype); !known.is_ok()) return known;
  if (p->q_offset < -farthest || p->q_offset > farthest || p->k_offset < -farthest ||
      p->k_offset > farthest) {
    return invalid("q_offset and k_offset are from -2^59 to 2^59");
  }
  problem->shape = {p->batch, p->heads, p->kv_heads, p->n, p->m, p->d, p->dv, {}};
  problem->dtype = dtype_of_number(p->dtype);
  problem->scale = p->scale;
  Status status = validate_problem(*problem);
  if (status.is_ok()) status = check_mask(*p);
  if (status.is_ok()) problem->shape.mask = shifted(mask_of(*p), p->q_offset - p->k_offset);
  return status;
}

Status check_gradients(const ioattn_sdpa_gradients* gradients) {
  if (gradients == nullptr) return invalid("gradients is null");
  if (gradients->struct_size == sizeof *gradients) return Status::ok();
  return invalid("gradients: struct_size is not sizeof(ioattn_sdpa_gradients)");
}

}  // namespace ioattn::api
