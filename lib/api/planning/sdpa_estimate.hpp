#pragma once

#include <optional>
#include <vector>

#include "api/run_options.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

// Plans of SDPA that need no search: of the instruction set that the model says is the fastest.
namespace ioattn::api {

// An instruction set, and how long kernels of it would take, of the time of those that calls use.
struct IsaTrial {
  Isa isa = Isa::scalar;
  double time = 1;
  bool is_measured = false;  // by rates; else by the lanes of a vector
};
struct IsaChoice {
  Isa chosen = Isa::scalar;
  std::vector<IsaTrial> trials;  // that of calls first; alone where it is not compared with others
};

// The plan of the request, or, where that takes nine tenths of the time at most, of another
// instruction set. It follows from sizes, the machine and the rates that wisdom has: not from
// threads, batch, masks, or which gradients are wanted. Where wisdom has no say (takes_wisdom), nor
// IOATTN_ISA leaves others, it is the request's: then results are those of every machine with the
// same caches and instruction set, and this depends on how the CPU computes. *made, if not null, is
// what was asked for then.
Status estimate_sdpa(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                     const RunOptions& options, plan::SdpaPlan* plan,
                     plan::Estimate* estimate = nullptr, plan::SdpaRequest* made = nullptr,
                     IsaChoice* choice = nullptr);

}  // namespace ioattn::api
