#pragma once

#include <memory>
#include <optional>

#include "api/run/sdpa.hpp"

namespace ioattn::api {

// A pass of SDPA on memory of its own, filled with numbers that are always the same.
class TimedSdpa {
 public:
  virtual ~TimedSdpa() = default;
  virtual Status run(const plan::SdpaPlan& plan) = 0;

  // What the inputs of the backward pass take is computed with `forward`.
  static Status make(const SdpaProblem& problem, const std::optional<SdpaSet>& set, int threads,
                     const plan::SdpaPlan& forward, std::unique_ptr<TimedSdpa>* result);
  static index_t bytes(const SdpaProblem& problem, const std::optional<SdpaSet>& set);
};

}  // namespace ioattn::api
