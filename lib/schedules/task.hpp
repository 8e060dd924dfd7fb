#pragma once

#include "base/layer_inputs.hpp"
#include "base/observer.hpp"
#include "base/overflow_counts.hpp"
#include "base/schedule.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/workspace.hpp"

namespace ioattn::schedules {

// How a task is executed, on which its results do not depend.
template <class T>
struct Execution {
  const kernels::KernelTable<T>* kernels = nullptr;
  int threads = 1;
  Observer* observer = nullptr;         // if not null, makes it sequential
  CallerMemory* memory = nullptr;       // for the workspace; null: the heap
  OverflowCounts* overflows = nullptr;  // of results that are rounded; null: nobody counts

  int workers() const { return observer != nullptr ? 1 : threads; }
};

// One forward or backward pass, validated, sizes at least 1. S: of the operands (storage.hpp).
template <class S>
struct ForwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  LayerShape shape;
  LayerInputs<S> in;
  MatrixView<S> o;   // [n, dv]
  T* lse = nullptr;  // [n]
  Blocks blocks;
};

template <class S>
struct BackwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  LayerShape shape;
  LayerInputs<S> in;
  MatrixView<const S> d_o;  // [n, dv]
  MatrixView<const S> o;    // [n, dv], of the forward pass
  const T* lse = nullptr;   // [n], of the forward pass
  MatrixView<T> dx;         // [d, d]
  Blocks blocks;
  // Schedules that pass U = p A2 through memory leave it here if the data are not null, [n, d], and
  // skip dX if its data are null.
  MatrixView<T> u = {};
};

// Workers of a pass, and how many problems, heads of SDPA, they share.
struct Workers {
  int count;
  index_t problems;

  Workers(int all, index_t shared = 1) : count(all), problems(shared) {}  // NOLINT: of threads

  // Whether each takes whole problems where sums over blocks are made in their order: unless that
  // leaves them idle for more than an eighth of the time, for to share a problem is to wait for
  // each other.
  bool take_whole_problems() const {
    return 8 * ceil_div(problems, index_t(count)) * count <= 9 * problems;
  }
};

// Events to an observer that may be null, and who counts results that overflow. Of a problem in 16
// bits the operands of the caller's are stored in these, all else in f32; what products of pairs
// multiply stays in 16 bits.
class Trace {
 public:
  explicit Trace(Observer* observer, bool half = false, bool pairs = false,
                 OverflowCounts* overflows = nullptr)
      : observer_(observer), overflows_(overflows), half_(half), pairs_(pairs) {}
  // Of the layer problem, whose operands are others than SDPA's.
  static Trace of_layer(Observer* observer, bool half, OverflowCounts* overflows = nullptr) {
    Trace trace(observer, half, false, overflows);
    trace.layer_ = true;
    return trace;
  }
  // The same of what multiplies pairs, if it does: S has two parts.
  static Trace of_layer_pairs(Observer* observer, bool pairs, OverflowCounts* overflows = nullptr) {
    Trace trace(observer, pairs, pairs, overflows);
    trace.s_in_parts_ = pairs;
    return trace;
  }
  // Of thin products of pairs, whose sums are in f32.
  static Trace of_pair_product(Observer* observer) {
    Trace trace(observer, true, true);
    trace.layer_ = true;
    return trace;
  }
  bool is_observed() const { return observer_ != nullptr; }
  CountedResult counted(Operand result) const { return {overflows_, result}; }

  void phase(const char* name) const {
    if (observer_ != nullptr) observer_->phase(name);
  }
  void read(const Block& block) const {
    if (observer_ != nullptr) observer_->read(weighed(block, is_half_operand(block.operand)));
  }
  void create(const Block& block) const {
    if (observer_ != nullptr) observer_->create(weighed(block, false));
  }
  void write(const Block& block) const {
    if (observer_ != nullptr) observer_->write(weighed(block, false));
  }
  void remove(const Block& block) const {
    if (observer_ != nullptr) observer_->remove(weighed(block, false));
  }
  void write_and_remove(const Block& block) const {
    write(block);
    remove(block);
  }
  // From, or to, a result in 16 bits, if the problem is.
  void read_rounded(const Block& block) const {
    if (observer_ != nullptr) observer_->read(weighed(block, true));
  }
  // Of what is in f32, although an operand of its name is not.
  void read_sums(const Block& block) const {
    if (observer_ != nullptr) observer_->read(weighed(block, false));
  }
  void write_rounded_and_remove(const Block& block) const {
    if (observer_ != nullptr) observer_->write(weighed(block, true));
    remove(block);
  }

 private:
  bool is_half_operand(Operand operand) const {
    if (layer_) {
      return operand == Operand::A1 || operand == Operand::A2 || operand == Operand::A3 ||
             operand == Operand::X || operand == Operand::Y || operand == Operand::dO ||
             operand == Operand::O || operand == Operand::W_Q || operand == Operand::W_K;
    }
    return operand == Operand::S || operand == Operand::A2 || operand == Operand::h ||
           operand == Operand::dO || operand == Operand::O || operand == Operand::bias ||
           is_layout(operand);
  }
  // A second one, of pairs of terms.
  static bool is_layout(Operand operand) {
    return operand == Operand::dO_panels || operand == Operand::A2_rows ||
           operand == Operand::A2_panels || operand == Operand::h_panels;
  }
  bool is_multiplied(Operand operand) const {
    if (layer_) {
      return operand == Operand::A1 || operand == Operand::A3 || operand == Operand::X ||
             operand == Operand::Y;
    }
    return operand == Operand::S || operand == Operand::A2 || operand == Operand::h ||
           operand == Operand::dO || operand == Operand::p_pairs || is_layout(operand);
  }
  Block weighed(Block block, bool in_half) const {
    if (!half_) return block;
    const bool has_parts = s_in_parts_ && block.operand == Operand::S;
    block.stored_words = in_half && !has_parts ? 1 : 2;
    block.resident_words = pairs_ && is_multiplied(block.operand) && !has_parts ? 1 : 2;
    return block;
  }

  Observer* observer_;
  OverflowCounts* overflows_;
  bool half_, pairs_, layer_ = false, s_in_parts_ = false;
};

// Consecutive blocks of [0, size) or [first, last): for (Range i(size, block); i; i.next()).
struct Range {
  index_t begin, end, step, limit;

  Range(index_t size, index_t block) : Range(0, size, block) {}
  Range(index_t first, index_t last, index_t block) : begin(first), step(block), limit(last) {
    cut();
  }
  explicit operator bool() const { return begin < limit; }
  void next() {
    begin = end;
    cut();
  }
  index_t size() const { return end - begin; }

 private:
  void cut() { end = begin + step < limit ? begin + step : limit; }
};

// Columns [cols.begin, cols.end) of some rows.
inline Block part_of(Operand operand, const Range& rows, const Range& cols) {
  return {operand, rows.begin, cols.begin, rows.size(), cols.size()};
}

// Whole rows of an operand with so many columns.
inline Block rows_of(Operand operand, const Range& rows, index_t cols) {
  return {operand, rows.begin, 0, rows.size(), cols};
}

}  // namespace ioattn::schedules
