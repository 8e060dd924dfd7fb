#include "api/checks/tensor_check.hpp"

#include <algorithm>

#include "api/checks/matrix_check.hpp"
#include "base/checked_size.hpp"

namespace ioattn::api {

void TensorCheck::add(const char* name, const void* data, Shape shape, std::size_t element,
                      bool is_output) {
  if (!status_.is_ok()) return;
  const auto fail = [&](StatusCode code, const char* why) {
    status_ = Status::error(code, "%s%s", name, why);
  };
  const auto [batch, heads, rows] = shape.outer;
  if (batch.count == 0 || heads.count == 0 || rows.count == 0 || shape.cols == 0) return;
  if (data == nullptr) return fail(StatusCode::invalid_argument, " is null");
  for (Dimension& dimension : shape.outer) {
    if (dimension.count == 1) dimension.stride = 0;
    if (dimension.stride < 0) {
      return fail(StatusCode::invalid_argument, ": a stride is negative");
    }
  }
  if (rows.count > 1 && rows.stride < shape.cols) {
    status_ = Status::error(
        StatusCode::invalid_argument, "%s: a row stride of %lld is below the row length %lld", name,
        static_cast<long long>(rows.stride), static_cast<long long>(shape.cols));
    return;
  }
  std::sort(shape.outer.begin(), shape.outer.end(),
            [](const Dimension& p, const Dimension& q) { return p.stride > q.stride; });
  bool nested = true;
  CheckedSize extent = shape.cols;  // from the first element to behind the last
  for (auto inner = shape.outer.rbegin(); inner != shape.outer.rend(); ++inner) {
    if (inner->count == 1) continue;
    nested = nested && !extent.overflow() && inner->stride >= extent.value();
    extent = extent + CheckedSize(inner->count - 1) * CheckedSize(inner->stride);
  }
  const CheckedSize bytes = extent * CheckedSize(static_cast<index_t>(element));
  std::uintptr_t begin = 0, end = 0;
  status_ = find_range(name, data, bytes, element, &begin, &end);
  if (!status_.is_ok()) return;
  if (is_output && !nested) {
    return fail(StatusCode::invalid_argument, ": its strides make elements overlap");
  }
  // Tensors of one call may have elements of several sizes: bytes from here on.
  for (Dimension& dimension : shape.outer) {
    if (dimension.count > 1) dimension.stride *= static_cast<index_t>(element);
  }
  shape.cols *= static_cast<index_t>(element);
  tensors_.push_back({name, begin, end, shape, nested, is_output});
}

// Whether a byte of one of the elements has an offset in [first, last).
bool TensorCheck::has_element_in(const Tensor& nested, index_t first, index_t last) {
  for (const Dimension& dimension : nested.shape.outer) {
    if (dimension.count == 1) continue;
    // The last index at or before `first`, and the next, whose element 0 comes after it.
    const index_t before = first < 0 ? -1 : first / dimension.stride;
    const index_t next = before + 1;
    if (next < dimension.count && next * dimension.stride < last) return true;
    if (before < 0) return false;
    const index_t index = std::min(before, dimension.count - 1);
    first -= index * dimension.stride;
    last -= index * dimension.stride;
  }
  return first < nested.shape.cols && last > 0;
}

// Row by row of the other tensor, if the two are not apart as a whole.
bool TensorCheck::overlap(const Tensor& output, const Tensor& other) {
  if (output.end <= other.begin || other.end <= output.begin) return false;
  if (!other.nested) return true;
  const index_t shift = static_cast<index_t>(other.begin - output.begin);
  const auto& [x, y, z] = other.shape.outer;
  for (index_t i = 0; i < x.count; ++i) {
    for (index_t j = 0; j < y.count; ++j) {
      for (index_t k = 0; k < z.count; ++k) {
        const index_t first = shift + i * x.stride + j * y.stride + k * z.stride;
        if (has_element_in(output, first, first + other.shape.cols)) return true;
      }
    }
  }
  return false;
}

const Status& TensorCheck::status() {
  for (std::size_t i = 0; i < tensors_.size() && status_.is_ok(); ++i) {
    const Tensor& output = tensors_[i];
    if (!output.is_output) continue;
    for (std::size_t j = 0; j < tensors_.size(); ++j) {
      const Tensor& other = tensors_[j];
      // Of two outputs one look is enough.
      if (j == i || (other.is_output && j < i)) continue;
      if (overlap(output, other)) {
        status_ = Status::error(StatusCode::invalid_argument, "%s and %s overlap", output.name,
                                other.name);
        break;
      }
    }
  }
  return status_;
}

}  // namespace ioattn::api
