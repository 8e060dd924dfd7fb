#include "pebble/words.hpp"

namespace ioattn::pebble {
namespace {

template <Value... values>
std::span<const Value> list() {
  static constexpr Value stages[] = {values...};
  return stages;
}

}  // namespace

std::span<const Value> stages_of(Operand operand) {
  switch (operand) {
    case Operand::A1: return list<Value::A1>();
    case Operand::A2: return list<Value::A2>();
    case Operand::A3: return list<Value::A3>();
    case Operand::X: return list<Value::X>();
    case Operand::Y: return list<Value::Y>();
    case Operand::dO: return list<Value::dO>();
    case Operand::S: return list<Value::S>();
    case Operand::K: return list<Value::K>();
    case Operand::G: return list<Value::G>();
    case Operand::h: return list<Value::h>();
    case Operand::scores: return list<Value::scores, Value::weight>();
    case Operand::f: return list<Value::scores, Value::f>();
    case Operand::q: return list<Value::q>();
    case Operand::p: return list<Value::scores, Value::q, Value::f, Value::p>();
    case Operand::row_sum: return list<Value::row_sum, Value::LSE>();
    case Operand::LSE: return list<Value::LSE>();
    case Operand::delta: return list<Value::delta>();
    case Operand::U:
    case Operand::dQ: return list<Value::U>();
    case Operand::T: return list<Value::T>();
    case Operand::Z: return list<Value::Z_sum, Value::Z>();
    case Operand::O: return list<Value::O_sum, Value::O>();
    case Operand::dX: return list<Value::dX>();
    case Operand::dA2: return list<Value::dA2>();
    case Operand::dA3: return list<Value::dA3>();
    case Operand::dA: return list<Value::dA>();
    case Operand::W: return list<Value::W>();
    default: return {};
  }
}

bool ends_in_function(Operand operand) {
  return operand == Operand::f || operand == Operand::p || operand == Operand::Z ||
         operand == Operand::O;
}

bool is_known(Operand operand) {
  switch (operand) {
    case Operand::row_max:
    case Operand::rescale:
    case Operand::A1_panels:
    case Operand::A2_rows:
    case Operand::dO_panels: return true;
    default: return !stages_of(operand).empty();
  }
}

}  // namespace ioattn::pebble
