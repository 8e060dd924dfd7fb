#include "instruments/counters/counter_value.hpp"

namespace ioattn::instruments {

const char* name_of(Validity validity) {
  switch (validity) {
    case Validity::exact: return "exact";
    case Validity::multiplexed: return "multiplexed";
    case Validity::incomplete: return "incomplete";
    case Validity::unavailable: break;
  }
  return "unavailable";
}

double CounterValue::running_share() const {
  return enabled_ns == 0 ? 0 : static_cast<double>(running_ns) / static_cast<double>(enabled_ns);
}

void CounterValue::add(std::uint64_t more, std::uint64_t enabled, std::uint64_t running) {
  count = count.value_or(0) + more;
  enabled_ns += enabled;
  running_ns += running;
  if (running > 0) {
    const double scale = static_cast<double>(enabled) / static_cast<double>(running);
    estimate = estimate.value_or(0) + static_cast<double>(more) * scale;
  } else if (enabled > 0) {
    starved = true;
  }
}

std::string QuantityValue::name() const { return Quantity{level, kind, {}, {}}.name(); }

QuantityValue evaluate(const EventFile& file, const Quantity& quantity,
                       const std::vector<CounterValue>& values) {
  QuantityValue result = {
      quantity.level, quantity.kind, Validity::exact, 0.0, file.formula_text(quantity), 0, ""};
  if (quantity.formula.empty()) {
    result.validity = Validity::unavailable;
    result.reason = quantity.text;
  }
  for (const Term& term : quantity.formula) {
    const CounterValue& value = values[term.event];
    if (value.validity >= result.validity && value.validity != Validity::exact) {
      // The first of the worst speaks for all.
      if (value.validity > result.validity || result.reason.empty()) {
        result.error = value.error;
        result.reason = value.reason;
      }
      result.validity = value.validity;
    }
    result.lines = *result.lines + term.sign * value.estimate.value_or(0);
  }
  if (result.validity == Validity::unavailable) result.lines.reset();
  return result;
}

std::vector<QuantityValue> evaluate(const EventFile& file,
                                    const std::vector<CounterValue>& values) {
  std::vector<QuantityValue> results;
  for (const Quantity& quantity : file.quantities) {
    results.push_back(evaluate(file, quantity, values));
  }
  return results;
}

void refuse_zero(QuantityValue* quantity) {
  if (quantity->lines != 0.0) return;
  quantity->validity = Validity::unavailable;
  quantity->lines.reset();
  quantity->reason = "counted 0, which cannot be: a hypervisor may filter this event";
}

}  // namespace ioattn::instruments
