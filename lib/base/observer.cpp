#include "base/observer.hpp"

namespace ioattn {

const char* name_of(Operand operand) {
  static constexpr const char* names[operand_count] = {
      "A1",   "A2", "A3",      "X",     "Y",       "dO",        "W_Q",     "W_K",       "O",
      "LSE",  "dX", "dY",      "dA1",   "dA2",     "dA3",       "dA",      "dW_Q",      "dW_K",
      "W",    "S",  "K",       "G",     "h",       "scores",    "q",       "f",         "p",
      "U",    "T",  "Z",       "delta", "row_max", "row_sum",   "rescale", "A1_panels", "scaled_X",
      "part", "dQ", "A2_rows", "bias",  "dBias",   "dO_panels", "p_pairs", "A2_panels", "h_panels"};
  return names[static_cast<int>(operand)];
}

}  // namespace ioattn
