#include "base/gradients.hpp"

namespace ioattn {

index_t gradient_numbers(const LayerShape& shape, const GradientSet& set, index_t batch) {
  index_t numbers = 0;
  for (const NamedGradient& gradient : named_gradients) {
    if (set.*gradient.wanted)
      numbers += gradient.entries(batch) * (shape.*gradient.rows) * gradient.cols_of(shape, set);
  }
  return numbers;
}

Status check_tie(const GradientSet& set, Tie tie) {
  if (!set.dA || tie != Tie::none) return Status::ok();
  return Status::error(
      StatusCode::invalid_argument,
      "dA is the sum over operands that share memory: it needs A2 = A3, or all three");
}

GradientSteps steps_of(const GradientSet& set, Tie tie, Form form) {
  const bool all = tie == Tie::all, g_form = form == Form::g;
  GradientSteps steps;
  steps.dx = set.dX || set.dW_Q || set.dW_K;
  steps.dw_q = set.dW_Q;
  steps.dw_k = set.dW_K;
  steps.alone = set.is_dx_alone();
  if (steps.alone) return steps;

  steps.parts = set.dA && (set.dA2 || set.dA3 || (all && set.dA1));
  steps.one_sum = set.dA && !steps.parts;
  const bool of_keys = set.dA2 || set.dA, of_values = set.dA3 || set.dA || set.dY;
  steps.da1 = set.dA1 || (all && set.dA);
  steps.rows = steps.dx || steps.da1;
  steps.keys = of_keys || of_values;
  steps.key_gradients = !of_values                ? KeyGradients::keys
                        : !of_keys                ? KeyGradients::values
                        : g_form && steps.one_sum ? KeyGradients::sum
                                                  : KeyGradients::both;
  steps.delta = steps.rows || of_keys;
  steps.s = true;
  steps.values = steps.rows || of_keys || g_form;
  steps.da3 = !g_form && (set.dA3 || set.dA);
  steps.dy = set.dY;
  return steps;
}

}  // namespace ioattn
