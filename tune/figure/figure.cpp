#include "tune/figure/figure.hpp"

#include <algorithm>
#include <cmath>

#include "theory/bounds.hpp"
#include "theory/word_level.hpp"
#include "tune/command_error.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/schedule_words.hpp"

namespace ioattn::tune {
namespace {

using theory::AlgorithmClass;
namespace w = theory::word_level;

constexpr int samples = 200;

double real(index_t words) { return static_cast<double>(words); }

std::optional<double> total(const w::Cost& cost) {
  return cost ? std::optional<double>(real(cost->total())) : std::nullopt;
}

std::vector<Mark> marks_of(const LayerShape& shape) {
  const double square = real(shape.d) * real(shape.d);
  return {{square / 9, "d²/9", "below: stationary"},
          {square / 4, "d²/4", "below: half_dim"},
          {square, "d²", "the paper's border between small and large cache"},
          {1.5 * square, "3d²/2", "below: q_stored"},
          {6 * square, "6d²", "below: row_stream; above: weight_resident"},
          {real(shape.n) * real(shape.d), "nd", "the matrices themselves"}};
}

// Geometric from where the first schedules fit to where everything does, with the marks.
std::vector<index_t> sizes_of_M(const LayerShape& shape, const std::vector<Mark>& marks) {
  const double square = real(shape.d) * real(shape.d);
  const double low = std::max(8.0, square / 64);
  const double high = 8 * std::max(real(shape.n) * real(shape.d), square);
  std::vector<index_t> sizes;
  for (int i = 0; i <= samples; ++i)
    sizes.push_back(std::llround(low * std::pow(high / low, double(i) / samples)));
  for (const Mark& mark : marks)
    if (mark.M >= low) sizes.push_back(static_cast<index_t>(mark.M));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

LayerShape figure_shape(index_t n, index_t d) {
  if (d < figure_least_d) {
    throw UsageError("--d " + std::to_string(d) + ": the least is " +
                     std::to_string(figure_least_d));
  }
  if (n < d) {
    throw UsageError("--n " + std::to_string(n) + ": the paper has n of at least d, " +
                     std::to_string(d));
  }
  const LayerShape shape = {n, n, d, d, Tie::none};
  check_shape(shape);
  return shape;
}

Figure make_figure(const LayerShape& shape) {
  Figure figure;
  figure.shape = shape;
  figure.marks = marks_of(shape);
  figure.M = sizes_of_M(shape, figure.marks);
  figure.curves = {{"paper_formula", "paper: min{(n²d² + nd³)/M, (n²d + nd²)/√M}, an order", {}},
                   {"paper_small", "paper, small cache (Alg. 2–6), as printed", {}},
                   {"paper_large_nominal", "paper, large cache (Alg. 7–9), as printed", {}},
                   {"paper_large", "paper, large cache, blocks that fit", {}},
                   {"ours", "ours: the best schedule", {}},
                   {"bound_f", "lower bound, one accumulator per entry", {}},
                   {"bound_p", "lower bound, pebble game", {}},
                   {"compulsory", "compulsory: every word once", {}}};
  for (const index_t M : figure.M) {
    const std::vector<ScheduleWords> list = schedule_words(Pass::backward, shape, M);
    std::optional<index_t> ours;
    const char* best = "";
    for (int i = 0; i < schedule_count; ++i) {
      const Schedule schedule = static_cast<Schedule>(i);
      if (is_papers(schedule)) continue;
      const std::optional<index_t> words = least_words(list, Pass::backward, schedule, shape, M);
      if (!words || (ours && *ours <= *words)) continue;
      ours = words;
      best = name_of(schedule);
    }
    const auto bound = [&](AlgorithmClass algorithms) {
      return theory::lower_bound(Pass::backward, algorithms, shape, M).words;
    };
    const std::optional<double> words[] = {theory::paper_formula(shape, M),
                                           total(w::paper_small_backward(shape, M)),
                                           real(w::paper_large_backward_nominal(shape, M).total()),
                                           total(w::paper_large_backward(shape, M)),
                                           ours ? std::optional(real(*ours)) : std::nullopt,
                                           bound(AlgorithmClass::F),
                                           bound(AlgorithmClass::P),
                                           theory::compulsory_bound(Pass::backward, shape)};
    for (std::size_t i = 0; i < figure.curves.size(); ++i)
      figure.curves[i].words.push_back(words[i]);
    figure.best.push_back(best);
  }
  return figure;
}

}  // namespace ioattn::tune
