#include "base/types.hpp"

namespace ioattn {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
  }
  return "?";
}

bool parse_dtype(std::string_view name, DType* dtype) {
  for (const DType candidate : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    if (name != name_of(candidate)) continue;
    *dtype = candidate;
    return true;
  }
  return false;
}

}  // namespace ioattn
