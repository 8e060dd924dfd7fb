#pragma once

#include <memory>
#include <optional>

#include "api/run/layer.hpp"

namespace ioattn::api {

// A pass of the layer problem on memory of its own, filled with numbers that are always the same.
class TimedLayer {
 public:
  virtual ~TimedLayer() = default;
  virtual Status run(const plan::LayerPlan& plan) = 0;

  // What the inputs of the backward pass take is computed with `forward`.
  static Status make(const LayerProblem& problem, const std::optional<GradientSet>& set,
                     int threads, const plan::LayerPlan& forward,
                     std::unique_ptr<TimedLayer>* result);
  static index_t bytes(const LayerProblem& problem, const std::optional<GradientSet>& set);
};

}  // namespace ioattn::api
