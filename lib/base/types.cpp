#include "base/types.hpp"

#include "base/parse.hpp"

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
  return parse_name(name, {DType::f32, DType::f64, DType::bf16, DType::f16}, dtype);
}

}  // namespace ioattn
