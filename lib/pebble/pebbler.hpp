#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/observer.hpp"
#include "pebble/attention_cdag.hpp"
#include "pebble/game.hpp"

namespace ioattn::pebble {

// Makes a pebbling of what a schedule reports. Reads, writes and removals are its own; computations
// are not reported, so they are inferred: when a block has become resident, everything that has a
// word to be in and whose parents are red is computed, sums term by term in the word of their
// accumulator, functions in the place of their argument. What has no word (a product, a weight
// between its score and its use, q where p's word holds f) is red for a moment only: at most three
// red pebbles beside the resident words.
class Pebbler final : public Observer {
 public:
  static constexpr index_t most_extra_red = 3;

  // The graph has chains for sums, and has to outlive the pebbler.
  explicit Pebbler(const AttentionCdag& cdag);

  void phase(const char*) override {}
  void read(const Block& block) override;
  void create(const Block& block) override;
  void write(const Block& block) override;
  void remove(const Block& block) override;

  const std::vector<Move>& moves() const { return moves_; }
  // The first event that the graph has no moves for, or "".
  const std::string& violation() const { return violation_; }

 private:
  using Word = std::tuple<Operand, index_t, index_t>;
  using Words = std::map<Word, node_t>;  // resident, with the node that each holds
  using Held = Words::value_type;

  template <class Visit>
  void for_each_word(const Block& block, const Visit& visit);
  void become_resident(const Word& word, bool is_read, const Block& block);
  node_t node_in_memory(const Word& word) const;

  void advance();
  bool add_next_term(Held* held);
  bool apply_function(Held* held);
  bool apply(Held* held, Value value);
  void take_place(node_t v);
  std::vector<const Entry*> entries_of(const Word& word, Value value) const;
  bool begins_elsewhere(const Word& word, Value value) const;
  bool is_resident(Operand operand, const Word& at) const {
    return words_.count({operand, std::get<1>(at), std::get<2>(at)}) > 0;
  }

  static std::size_t at(node_t v) { return static_cast<std::size_t>(v); }
  bool is_red(node_t v) const { return holders_[at(v)] > 0; }
  bool can_compute(node_t v) const;
  bool is_passing(node_t v) const;
  void make(node_t v);     // red, with one holder more
  void compute(node_t v);  // from parents that are red
  void replace(Held* held, node_t by);
  void release(node_t v);
  void fail(const Block& block, const char* why);

  const AttentionCdag& cdag_;
  Words words_;
  Words memory_;                  // words that were written, with the node that each holds
  std::vector<index_t> holders_;  // of a red pebble: words, and computations that wait for others
  std::vector<Move> moves_;
  std::string violation_;
};

}  // namespace ioattn::pebble
