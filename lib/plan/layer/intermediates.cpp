#include "plan/layer/intermediates.hpp"

namespace ioattn::plan {

namespace {

// What is made on the way of a problem in 16 bits is in f32, or in two parts of 16 bits, but for h
// that is multiplied as pairs.
class List {
 public:
  List(DType dtype, Schedule schedule)
      : sum_(is_half(dtype) ? DType::f32 : dtype),
        h_(schedule == Schedule::tile_fused ? dtype : sum_) {}

  void add(const char* name, index_t rows, index_t cols) { made_.add(name, rows, cols, sum_); }
  void add_h(index_t rows, index_t cols) { made_.add("h", rows, cols, h_); }
  const Intermediates& made() const { return made_; }

 private:
  DType sum_, h_;
  Intermediates made_;
};

}  // namespace

index_t Intermediates::bytes() const {
  index_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    const Intermediate& one = list[static_cast<std::size_t>(i)];
    bytes += one.rows * one.cols * size_of(one.dtype);
  }
  return bytes;
}

Intermediates intermediates(const Variant& variant, const LayerShape& shape, DType dtype) {
  const auto [n, m, d, e, tie, mask] = shape;
  const auto [pass, schedule, form, products] = variant;
  const bool forward = pass == Pass::forward, h_form = form == Form::h;
  const bool stored = products == Products::stored;
  List all(dtype, schedule);
  const auto add_values = [&, n = n, m = m, d = d, e = e](const char* of_queries) {
    if (h_form) {
      all.add_h(m, e);
    } else {
      all.add(of_queries, n, d);
    }
  };
  const auto add_thin = [&, n = n, d = d] {
    all.add("delta", n, 1);
    add_values("G");
    if (stored) all.add("S", n, d);
    if (stored) all.add("U", n, d);
  };
  switch (schedule) {
    case Schedule::naive:
    case Schedule::paper_small:
      all.add("S", n, d);
      all.add("h", m, e);
      all.add(forward ? "scores" : "f", n, m);
      if (!forward) all.add("p", n, m);
      if (!forward) all.add("T", m, d);
      break;
    case Schedule::paper_large:
      all.add("S", n, d);
      all.add("h", m, e);
      break;
    case Schedule::stationary:
    case Schedule::score_stored:
      all.add("S", n, d);
      all.add(forward ? "scores" : "f", n, m);
      add_values(forward ? "Z" : "G");
      if (!forward) all.add("delta", n, 1);
      if (!forward) all.add("U", n, d);
      break;
    case Schedule::row_stream:
    case Schedule::tile_fused:
      if (!forward && stored) {
        add_thin();
      } else if (h_form || stored) {
        add_values("Z");
        if (stored) all.add("S", n, d);
      }
      break;
    case Schedule::q_stored:
      add_thin();
      all.add("q", n, m);
      break;
    case Schedule::half_dim:
      add_thin();
      all.add("p", n, m);
      if (d > 1) all.add("scores", n, m);
      break;
    case Schedule::weight_resident:
      if (h_form) all.add("h", m, e);
      break;
    case Schedule::resident:
    case Schedule::col_stream: break;
  }
  return all.made();
}

Intermediates intermediates(const LayerShape& shape, const GradientSet& set, Schedule schedule,
                            Schedule by_keys, Form form, DType dtype) {
  const auto [n, m, d, e, tie, mask] = shape;
  const GradientSteps steps = steps_of(set, tie, form);
  const bool of_values = steps.keys && steps.key_gradients != KeyGradients::keys;
  List all(dtype, by_keys);
  if (steps.delta) all.add("delta", n, 1);
  if (steps.s) all.add("S", n, d);
  if (steps.values && form == Form::h) all.add_h(m, e);
  if (steps.values && form == Form::g) all.add("G", n, d);
  if (steps.rows) {
    all.add("U", n, d);
    if (schedule != Schedule::row_stream) all.add(schedule == Schedule::half_dim ? "p" : "q", n, m);
    if (schedule == Schedule::half_dim && d > 1) all.add("scores", n, m);
  }
  if (of_values && form == Form::h) all.add("W", m, e);
  if (steps.dx && !set.dX) all.add("dX", d, d);
  if (steps.parts && !set.dA2) all.add("dA2", m, d);
  if (steps.parts && !set.dA3) all.add("dA3", m, d);
  if (steps.parts && tie == Tie::all && !set.dA1) all.add("dA1", n, d);
  return all.made();
}

Intermediates intermediates(const LayerShape& shape, const std::optional<GradientSet>& set,
                            const LayerBlocks& blocks, DType dtype) {
  const Pass pass = set ? Pass::backward : Pass::forward;
  const Variant variant = variant_of(pass, blocks.schedule, blocks.rows);
  if (!set) return intermediates(variant, shape, dtype);
  Intermediates all =
      intermediates(shape, *set, blocks.schedule, blocks.by_keys, blocks.rows.form, dtype);
  if (!set->is_dx_alone()) return all;
  // dX by a pass of its own, and what others take beside it.
  const Intermediates of_pass = intermediates(variant, shape, dtype);
  for (int i = 0; i < of_pass.count; ++i) {
    const Intermediate& one = of_pass.list[static_cast<std::size_t>(i)];
    all.add(one.name, one.rows, one.cols, one.dtype);
  }
  return all;
}

}  // namespace ioattn::plan
