#pragma once

#include "base/observer.hpp"
#include "base/overflow_counts.hpp"

namespace ioattn::schedules {

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
  // A sum, to which terms are added or whose first terms are made.
  void begin_sum(const Block& block, bool adds) const {
    if (adds) {
      read(block);
    } else {
      create(block);
    }
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

}  // namespace ioattn::schedules
