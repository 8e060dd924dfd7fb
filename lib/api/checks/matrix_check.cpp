#include "api/checks/matrix_check.hpp"

namespace ioattn::api {

void MatrixCheck::add(const char* name, const void* data, index_t rows, index_t cols,
                      index_t stride, index_t wanted_rows, index_t wanted_cols, std::size_t element,
                      bool is_output) {
  if (!status_.is_ok()) return;
  if (rows != wanted_rows || cols != wanted_cols) {
    status_ =
        Status::error(StatusCode::invalid_argument, "%s is %lld x %lld, not %lld x %lld", name,
                      static_cast<long long>(rows), static_cast<long long>(cols),
                      static_cast<long long>(wanted_rows), static_cast<long long>(wanted_cols));
    return;
  }
  if (rows == 0 || cols == 0) return;
  if (data == nullptr) {
    status_ = Status::error(StatusCode::invalid_argument, "%s is null", name);
    return;
  }
  if (stride < cols) {
    status_ = Status::error(StatusCode::invalid_argument,
                            "%s: a row stride of %lld is below the row length %lld", name,
                            static_cast<long long>(stride), static_cast<long long>(cols));
    return;
  }
  const CheckedSize bytes = (CheckedSize(rows - 1) * CheckedSize(stride) + CheckedSize(cols)) *
                            CheckedSize(static_cast<index_t>(element));
  std::uintptr_t begin = 0, end = 0;
  status_ = find_range(name, data, bytes, element, &begin, &end);
  if (!status_.is_ok()) return;
  if (count_ == most_arrays) {
    status_ = Status::error(StatusCode::internal, "%s: more arrays than a call can have", name);
    return;
  }
  arrays_[count_++] = {name, begin, end, is_output};
}

Status find_range(const char* name, const void* data, CheckedSize bytes, std::size_t element,
                  std::uintptr_t* begin, std::uintptr_t* end) {
  *begin = reinterpret_cast<std::uintptr_t>(data);
  if (bytes.overflow() ||
      __builtin_add_overflow(*begin, static_cast<std::uintptr_t>(bytes.value()), end)) {
    return Status::error(StatusCode::size_overflow, "%s: its size does not fit in 64 bits", name);
  }
  if (*begin % element == 0) return Status::ok();
  return Status::error(StatusCode::invalid_argument, "%s is not aligned to its elements", name);
}

const Status& MatrixCheck::status() {
  for (std::size_t i = 0; i < count_ && status_.is_ok(); ++i) {
    for (std::size_t j = i + 1; j < count_; ++j) {
      const Array &p = arrays_[i], &q = arrays_[j];
      if ((p.is_output || q.is_output) && p.begin < q.end && q.begin < p.end) {
        status_ = Status::error(StatusCode::invalid_argument, "%s and %s overlap", p.name, q.name);
        break;
      }
    }
  }
  return status_;
}

}  // namespace ioattn::api
