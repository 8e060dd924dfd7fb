#include "tune/figure/figure_points.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/traffic/traffic_case.hpp"
#include "tune/traffic/traffic_simulation.hpp"

namespace ioattn::tune {

bool is_soon_counted(const LayerShape& shape) {
  return shape.n <= most_counted_work / 4 / shape.n / shape.d;
}

void check_counted_work(const LayerShape& shape) {
  if (shape.n > most_counted_work / shape.n / shape.d) {
    throw UsageError("--points runs every schedule: n^2 d is more than " +
                     std::to_string(most_counted_work));
  }
}

std::optional<Contender> fewest_words(Pass pass, const LayerShape& shape, index_t M,
                                      Author author) {
  LayerProblem problem;
  problem.shape = shape;
  api::RunOptions options;
  options.M = M;
  const plan::LayerRequest request = request_for(pass, problem, options);
  plan::LayerRequest in_words = request;
  in_words.tile.rows = in_words.tile.cols = 1;  // no rounding to register tiles
  in_words.price = plan::price_of(plan::Objective::words);
  std::optional<Contender> best;
  for (const plan::Candidate& candidate : plan::candidates(in_words)) {
    // naive moves whatever does not fit word by word.
    const bool admitted = candidate.fits && candidate.schedule != Schedule::naive &&
                          (author == Author::anyone || is_papers(candidate.schedule));
    if (!admitted) continue;
    if (!best || candidate.cost.total().words() < best->words()) best = {request, candidate};
  }
  return best;
}

index_t counted_words(const Contender& contender) {
  const auto [n, m, d, e, tie, mask] = contender.request.problem.shape;
  const PlannedPass pass = planned(contender.request, contender.candidate);
  const std::vector<float> zeros(static_cast<std::size_t>(std::max({n, m, d}) * std::max(d, e)));
  const auto matrix = [&zeros](index_t rows, index_t cols) {
    return MatrixView<const float>{zeros.data(), rows, cols, cols};
  };
  // Copies, as operands in one place would be tied.
  const std::vector<float> second = zeros, third = zeros;
  LayerInputs<float> in = {matrix(n, d), matrix(m, d), matrix(m, d), matrix(d, d), matrix(d, e)};
  in.a2.data = second.data();
  in.a3.data = third.data();
  const RunMode counted = {1, false};
  if (contender.request.pass == Pass::forward) {
    ForwardResult<float> result;
    return run_forward(in, pass, counted, &result).count.words();
  }
  std::vector<float> dx;
  const MatrixView<const float> outputs = matrix(n, e);
  return run_backward(in, outputs, outputs, zeros.data(), pass, counted, &dx).count.words();
}

index_t simulated_words(index_t M) {
  machine::CacheLevel l2;
  l2.level = 2;
  const double fraction = machine::fast_memory(l2, DType::f32).fraction;
  return static_cast<index_t>(std::llround(static_cast<double>(M) / fraction));
}

namespace {

std::vector<PointSeries> counted_points(const LayerShape& shape, const std::vector<index_t>& M) {
  PointSeries paper = {"counted_paper", "counted: the paper's best that fits", {}};
  PointSeries best = {"counted_best", "counted: the best schedule", {}};
  for (const index_t words : M) {
    const auto add = [&](Author author, PointSeries* to) {
      const std::optional<Contender> found = fewest_words(Pass::backward, shape, words, author);
      if (found) to->points.push_back({words, found->candidate.schedule, counted_words(*found)});
    };
    add(Author::paper, &paper);
    add(Author::anyone, &best);
  }
  return {paper, best};
}

PointSeries simulated_points(const LayerShape& shape, const std::vector<index_t>& M) {
  PointSeries lru = {"simulated_lru", "simulated: LRU, the library's plan", {}};
  LayerProblem problem;
  problem.shape = shape;
  const std::unique_ptr<TrafficCase> run = layer_case(Pass::backward, problem);
  for (const index_t words : M) {
    api::RunOptions options;
    options.M = words;
    Traffic traffic;
    try {
      traffic.plan = run->plan(options);
    } catch (const UsageError&) {
      continue;  // nothing fits
    }
    SimulatedCache cache;
    cache.capacity_bytes = simulated_words(words) * size_of(problem.dtype);
    run->run(nullptr, nullptr);
    simulate(cache, TraceLimits(), run->result_bits(), run.get(), &traffic);
    for (const TrafficLine& line : traffic.lines) {
      if (line.key != "lru" || !line.is_available()) continue;
      Schedule schedule = Schedule::row_stream;
      parse_schedule(traffic.plan.schedule, &schedule);
      lru.points.push_back({words, schedule, static_cast<index_t>(line.moved())});
    }
  }
  return lru;
}

}  // namespace

std::vector<PointSeries> measured_points(const LayerShape& shape, const std::vector<index_t>& M) {
  std::vector<PointSeries> series = counted_points(shape, M);
  series.push_back(simulated_points(shape, M));
  return series;
}

std::vector<index_t> sizes_of_points(const Figure& figure) {
  std::vector<index_t> sizes = {figure.M.front(), figure.M.back()};
  for (const Mark& mark : figure.marks)
    if (static_cast<index_t>(mark.M) > sizes.front()) sizes.push_back(static_cast<index_t>(mark.M));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace ioattn::tune
