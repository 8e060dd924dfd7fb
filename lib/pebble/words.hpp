#pragma once

#include <span>

#include "base/observer.hpp"
#include "pebble/cdag.hpp"

namespace ioattn::pebble {

// The values that a word of an operand holds one after the other. Empty for what holds copies
// (A1_panels) or no node of any graph (row_max, rescale).
std::span<const Value> stages_of(Operand operand);

// Whether the last stage is a function of the ones before that is computed as soon as it can be:
// f, p, and Z or O where a division ends their sum.
bool ends_in_function(Operand operand);

// Whether schedules pebble blocks of the operand at all: gradients of layers as a whole, batches
// and biases have no graph.
bool is_known(Operand operand);

}  // namespace ioattn::pebble
