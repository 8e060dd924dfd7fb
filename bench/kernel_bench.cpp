// Each kernel beside the FMA peak of its ISA, operands in L1 or L2: runs of the kernel alternate
// with runs of fma_loop, and the counters are medians over such pairs, so that what disturbs the
// machine disturbs both or neither.

#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/aligned_vector.hpp"
#include "kernels/registry.hpp"
#include "machine/datapath.hpp"
#include "machine/machine.hpp"
#include "search/statistics.hpp"

namespace ioattn::bench {
namespace {

using kernels::Epilogue;
using kernels::KernelTable;

constexpr int pairs = 300;  // of a kernel's and fma_loop's runs, 50 to 100 us each

template <class T>
constexpr const char* dtype_name = sizeof(T) == 4 ? "f32" : "f64";

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs of a kernel and of fma_loop that take about as long.
template <class T>
class PairedRuns {
 public:
  PairedRuns(const KernelTable<T>& table, std::function<void()> kernel)
      : table_(table), kernel_(std::move(kernel)) {
    constexpr double least_seconds = 50e-6;
    while (seconds_of([this] { run_kernel(); }) < least_seconds) calls_ *= 2;
    while (seconds_of([this] { run_loop(); }) < least_seconds) iterations_ *= 2;
  }
  // Seconds of one call of the kernel; keeps the ratio to the peak.
  double run() {
    const double kernel = seconds_of([this] { run_kernel(); }) / static_cast<double>(calls_);
    const double loop = seconds_of([this] { run_loop(); }) /
                        static_cast<double>(iterations_ * table_.fma_per_iteration);
    seconds_.push_back(kernel);
    fma_.push_back(kernel / loop);
    return kernel;
  }
  double seconds() const { return search::median(seconds_); }
  // Multiply-adds that the peak would have done in the time of one call.
  double fma() const { return search::median(fma_); }

 private:
  void run_kernel() {
    for (int i = 0; i < calls_; ++i) kernel_();
  }
  void run_loop() { benchmark::DoNotOptimize(table_.fma_loop(iterations_)); }

  const KernelTable<T>& table_;
  std::function<void()> kernel_;
  int calls_ = 1;
  index_t iterations_ = 64;
  std::vector<double> seconds_, fma_;
};

template <class T>
AlignedVector<T> random_values(index_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<double> normal(0, 0.1);
  AlignedVector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(normal(engine));
  return values;
}

// Cache lines apart, as the schedules lay out their tiles.
index_t padded(index_t cols, index_t nr) { return (cols + nr - 1) / nr * nr + nr; }

struct ProductCase {
  index_t rows, cols, depth;
  bool a_by_row;  // a_row == 1: the transposed tile
  bool b_panels;  // else row-major
  bool accumulate;
  Epilogue epilogue;
};

template <class T>
struct ProductOperands {
  ProductOperands(const KernelTable<T>& table, const ProductCase& c) {
    const index_t nr = table.tile.cols;
    const index_t lanes = (c.cols + nr - 1) / nr * nr;
    const index_t a_stride = padded(c.a_by_row ? c.rows : c.depth, nr);
    a = random_values<T>(a_stride * (c.a_by_row ? c.depth : c.rows));
    b = random_values<T>(c.depth * padded(c.cols, nr));
    out = random_values<T>(c.rows * padded(c.cols, nr));
    // Gradients are made in place, again and again: by factors near 1, or denormals would be timed.
    const bool in_place = c.epilogue == Epilogue::gradient;
    for (T& value : b) value *= in_place ? T(1e-5) : T(1);
    shift = AlignedVector<T>(static_cast<std::size_t>(lanes), in_place ? T(-1) : T(0.5));
    product.rows = c.rows;
    product.cols = c.cols;
    product.depth = c.depth;
    product.a = {a.data(), c.a_by_row ? 1 : a_stride, c.a_by_row ? a_stride : 1};
    product.b = {b.data(), c.b_panels ? c.depth * nr : nr, c.b_panels ? nr : padded(c.cols, nr)};
    product.c = {out.data(), nr, padded(c.cols, nr)};
    product.accumulate = c.accumulate;
    product.epilogue = c.epilogue;
    product.lane = c.epilogue == Epilogue::none ? nullptr : shift.data();
    product.padded = true;
  }
  AlignedVector<T> a, b, out, shift;
  kernels::Product<T> product;
};

constexpr const char* name_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: return "none";
    case Epilogue::exp: return "exp";
    case Epilogue::gradient: return "gradient";
  }
  return "";
}

std::string name_of(const ProductCase& c) {
  return "rows:" + std::to_string(c.rows) + "/cols:" + std::to_string(c.cols) +
         "/depth:" + std::to_string(c.depth) + "/a:" + (c.a_by_row ? "transposed" : "rows") +
         "/b:" + (c.b_panels ? "panels" : "rows") +
         "/epilogue:" + (c.accumulate ? "add" : name_of(c.epilogue));
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(pairs);
}

template <class T>
void add_product(const KernelTable<T>& table, const std::string& isa, const ProductCase& c) {
  add(std::string("product/") + dtype_name<T> + "/" + isa + "/" + name_of(c),
      [&table, c](benchmark::State& state) {
        ProductOperands<T> operands(table, c);
        PairedRuns<T> runs(table, [&] { table.product(operands.product); });
        for (auto _ : state) state.SetIterationTime(runs.run());
        const double fma = static_cast<double>(c.rows * c.cols * c.depth);
        state.counters["GFLOPS"] = 2e-9 * fma / runs.seconds();
        state.counters["peak_fraction"] = fma / runs.fma();
      });
}

// Kernels without multiply-adds of their own: what one element costs in multiply-adds at the peak,
// to be held against the depth of a product that makes or reads the element.
template <class T>
void add_elementwise(const KernelTable<T>& table, const std::string& isa, const std::string& name,
                     index_t elements, const std::function<void()>& kernel) {
  add(name + "/" + dtype_name<T> + "/" + isa, [=, &table](benchmark::State& state) {
    PairedRuns<T> runs(table, kernel);
    for (auto _ : state) state.SetIterationTime(runs.run());
    state.counters["ns_per_element"] = 1e9 * runs.seconds() / static_cast<double>(elements);
    state.counters["fma_per_element"] = runs.fma() / static_cast<double>(elements);
  });
}

// A score tile of 128 keys x 64 queries and vectors over its queries, kept by the benchmarks.
template <class T>
struct TileOperands {
  static constexpr index_t keys = 128, queries = 64, depth = 64;
  static constexpr index_t stride = queries + 16;
  AlignedVector<T> x = random_values<T>(keys * stride), y = x, z = x;
  AlignedVector<T> lse = AlignedVector<T>(queries, T(0.5)), sum = lse;
  AlignedVector<T> row_max = lse, row_sum = lse, rescale = lse;
  AlignedVector<T> panels = AlignedVector<T>(static_cast<std::size_t>(keys * stride));
  kernels::ScoreTile<T> tile(AlignedVector<T>& values) const {
    return {values.data(), stride, keys, queries};
  }
};

template <class T>
void add_tiles(const KernelTable<T>& table, const std::string& isa) {
  using Operands = TileOperands<T>;
  const auto data = std::make_shared<Operands>();
  constexpr index_t elements = Operands::keys * Operands::queries;
  const auto tile = [&](const char* name, auto run) {
    add_elementwise<T>(table, isa, name, elements, [data, run] { run(*data); });
  };
  tile("exp_tile", [&table](Operands& o) { table.exp_tile(o.tile(o.x), o.lse.data()); });
  tile("gradient_tile", [&table](Operands& o) {
    table.gradient_tile(o.tile(o.x), o.tile(o.y), o.lse.data(), o.tile(o.z));
  });
  tile("dot_tile",
       [&table](Operands& o) { table.dot_tile(o.tile(o.y), o.tile(o.y), o.sum.data()); });
  tile("softmax_update/store", [&table](Operands& o) {
    table.softmax_update(o.tile(o.x), true, o.row_max.data(), o.row_sum.data(), o.rescale.data());
  });
  tile("softmax_update/keep", [&table](Operands& o) {
    table.softmax_update(o.tile(o.y), false, o.row_max.data(), o.row_sum.data(), nullptr);
  });
  tile("row_dot", [&table](Operands& o) {
    table.row_dot(o.keys, o.queries, o.y.data(), o.stride, o.y.data(), o.stride, o.panels.data());
  });
  tile("pack/transposed", [&table](Operands& o) {
    table.pack(o.y.data(), o.stride, 1, o.keys, o.queries, o.panels.data());
  });
  tile("pack/rows", [&table](Operands& o) {
    table.pack(o.y.data(), 1, o.stride, o.queries, o.keys, o.panels.data());
  });
}

template <class T>
void add_kernels(const KernelTable<T>& table, const std::string& isa) {
  add(std::string("fma_loop/") + dtype_name<T> + "/" + isa, [&table](benchmark::State& state) {
    constexpr index_t iterations = 1000;
    PairedRuns<T> runs(table, [&] { benchmark::DoNotOptimize(table.fma_loop(iterations)); });
    for (auto _ : state) state.SetIterationTime(runs.run());
    const double fma = static_cast<double>(iterations * table.fma_per_iteration);
    state.counters["GFLOPS"] = 2e-9 * fma / runs.seconds();
    state.counters["peak_fraction"] = fma / runs.fma();
  });
  for (const index_t depth : {64, 128, 256, 512}) {
    // Scores: keys or queries by row, the others in panels.
    for (const Epilogue epilogue : {Epilogue::none, Epilogue::exp, Epilogue::gradient})
      add_product<T>(table, isa, {128, 128, depth, false, true, false, epilogue});
    add_product<T>(table, isa, {256, 64, depth, false, true, false, Epilogue::none});
    // Sums over a tile: the tile transposed or not, values row-major, d columns.
    for (const index_t cols : {64, 128, 512}) {
      add_product<T>(table, isa, {128, cols, depth, true, false, true, Epilogue::none});
    }
    add_product<T>(table, isa, {128, 128, depth, false, false, true, Epilogue::none});
    add_product<T>(table, isa, {512, 128, depth, false, true, true, Epilogue::none});
  }
  add_tiles<T>(table, isa);
}

int run_all(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("cpu", machine::this_machine().model);
  for (const kernels::Kernels* kernels : kernels::all_kernels()) {
    const bool are_of_a_lesser_one = kernels->f32->tile.isa != kernels->isa;
    if (are_of_a_lesser_one || !machine::this_machine().isa.has(kernels->isa)) continue;
    const auto& used = *kernels::find_kernels(kernels->isa, machine::datapath_bits());
    add_kernels<float>(*used.f32, name_of(used.isa));
    add_kernels<double>(*used.f64, name_of(used.isa));
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace ioattn::bench

int main(int argc, char** argv) { return ioattn::bench::run_all(argc, argv); }
