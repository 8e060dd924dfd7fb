#pragma once

#include <functional>

#include "api/known/wisdom_state.hpp"
#include "kernels/registry.hpp"

// How fast this machine computes and moves numbers: measured once, and kept as wisdom.
namespace ioattn::api {

// What rates are made of. Of one of so many threads, all of which are busy; tests have their own.
struct RateMeter {
  int threads = 1;
  // Seconds of a multiply-add of products of f32, of f64, or of pairs of bf16.
  std::function<double(DType)> multiply_add;
  // Seconds of a byte that is streamed from memory, or from L3 to L2.
  std::function<double(bool from_L3)> byte;
};

// Of this machine: each function takes a tenth of a second or so. Empty functions if there is
// no memory for the streams.
RateMeter meter_of(const kernels::Kernels& kernels, int threads);
// The same bytes, which are read once, with the multiply-adds of other kernels.
RateMeter meter_of(const kernels::Kernels& kernels, const RateMeter& bytes);

// Keeps the rates of every type, of the environments of their kernels; none that no CPU has.
void learn_rates(const kernels::Kernels& kernels, const RateMeter& meter, const std::string& date,
                 wisdom::Wisdom* wisdom);

// Whether the rates of every type are known, and a CPU may have them.
bool knows_rates(const kernels::Kernels& kernels, const KnownWisdom& known);

}  // namespace ioattn::api
