#include "pebble/pebbler.hpp"

#include <algorithm>

#include "pebble/words.hpp"

namespace ioattn::pebble {
namespace {

// Operands with two names in slow memory.
template <class Word>
Word place_of(Word word) {
  Operand& operand = std::get<0>(word);
  if (operand == Operand::row_sum) operand = Operand::LSE;
  if (operand == Operand::dQ) operand = Operand::U;
  return word;
}

}  // namespace

Pebbler::Pebbler(const AttentionCdag& cdag) : cdag_(cdag), holders_(at(cdag.graph().size())) {
  if (cdag.recipe().tree != Tree::chain) violation_ = "sums of one accumulator are chains";
}

void Pebbler::fail(const Block& block, const char* why) {
  if (!violation_.empty()) return;
  violation_ = std::string(name_of(block.operand)) + "(" + std::to_string(block.row) + "," +
               std::to_string(block.col) + ")[" + std::to_string(block.rows) + "x" +
               std::to_string(block.cols) + "] " + why;
}

template <class Visit>
void Pebbler::for_each_word(const Block& block, const Visit& visit) {
  if (!is_known(block.operand)) fail(block, "has no nodes in any graph");
  if (stages_of(block.operand).empty()) return;
  for (index_t i = block.row; i < block.row + block.rows && violation_.empty(); ++i)
    for (index_t j = block.col; j < block.col + block.cols && violation_.empty(); ++j)
      visit(Word{block.operand, i, j});
}

void Pebbler::read(const Block& block) {
  for_each_word(block, [&](const Word& word) { become_resident(word, true, block); });
  advance();
}

void Pebbler::create(const Block& block) {
  for_each_word(block, [&](const Word& word) { become_resident(word, false, block); });
  advance();
}

void Pebbler::become_resident(const Word& word, bool is_read, const Block& block) {
  const auto [place, is_new] = words_.emplace(word, no_node);
  if (!is_new) return fail(block, "made resident twice");
  if (!is_read) return;
  place->second = node_in_memory(word);
  if (place->second == no_node) return fail(block, "read before it was written");
  moves_.push_back({Rule::read, place->second});
  ++holders_[at(place->second)];
}

// What was written last in the place of the word, or the input that lies there.
node_t Pebbler::node_in_memory(const Word& word) const {
  const auto written = memory_.find(place_of(word));
  if (written != memory_.end()) return written->second;
  const auto& [operand, i, j] = word;
  const Entry* entry = cdag_.find(stages_of(operand).back(), i, j);
  return entry != nullptr && cdag_.graph().is_input(entry->root) ? entry->root : no_node;
}

void Pebbler::write(const Block& block) {
  for_each_word(block, [&](const Word& word) {
    const auto held = words_.find(word);
    if (held == words_.end()) return fail(block, "written while not resident");
    // LSE takes the place of the sum of the weights.
    const Entry* lse = cdag_.find(Value::LSE, std::get<1>(word), 0);
    if (block.operand == Operand::row_sum && lse != nullptr &&
        cdag_.graph().parents(lse->root).front() == held->second) {
      compute(lse->root);
      replace(&*held, lse->root);
    }
    if (held->second == no_node) return fail(block, "written before it was computed");
    moves_.push_back({Rule::write, held->second});
    memory_[place_of(word)] = held->second;
  });
}

void Pebbler::remove(const Block& block) {
  for_each_word(block, [&](const Word& word) {
    const auto held = words_.find(word);
    if (held == words_.end()) return fail(block, "removed while not resident");
    if (held->second != no_node) release(held->second);
    words_.erase(held);
  });
}

// Functions take the place of their arguments, so sums of these come first.
void Pebbler::advance() {
  for (bool changed = violation_.empty(); changed;) {
    changed = false;
    for (Held& held : words_)
      while (add_next_term(&held)) changed = true;
    if (changed) continue;
    changed = std::any_of(words_.begin(), words_.end(),
                          [this](Held& held) { return apply_function(&held); });
  }
}

// T has an entry for every block of rows.
std::vector<const Entry*> Pebbler::entries_of(const Word& word, Value value) const {
  std::vector<const Entry*> entries;
  const auto& [operand, row, col] = word;
  for (index_t i = row; i < cdag_.rows(value); i += cdag_.recipe().shape.d) {
    const Entry* entry = cdag_.find(value, i, col);
    if (entry != nullptr) entries.push_back(entry);
    if (value != Value::T) break;
  }
  return entries;
}

// Scores and q have words of their own if any are resident; otherwise they are made in those of
// f or p.
bool Pebbler::begins_elsewhere(const Word& word, Value value) const {
  const Operand operand = std::get<0>(word);
  if (value == Value::scores && operand == Operand::p && is_resident(Operand::f, word)) return true;
  const Operand own = value == Value::q ? Operand::q : Operand::scores;
  return (value == Value::scores || value == Value::q) && operand != own && is_resident(own, word);
}

bool Pebbler::add_next_term(Held* held) {
  for (const Value value : stages_of(std::get<0>(held->first))) {
    if (held->second == no_node && begins_elsewhere(held->first, value)) continue;
    for (const Entry* sum : entries_of(held->first, value)) {
      std::size_t next = 0;
      if (held->second != no_node) {
        const auto last = std::find(sum->partial.begin(), sum->partial.end(), held->second);
        if (last == sum->partial.end()) continue;
        next = static_cast<std::size_t>(last - sum->partial.begin()) + 1;
      }
      if (next >= sum->partial.size()) continue;
      if (!is_red(sum->terms[next]) && !can_compute(sum->terms[next])) continue;
      make(sum->terms[next]);
      if (next == 0) {
        held->second = sum->terms[0];
      } else {
        compute(sum->partial[next]);
        replace(held, sum->partial[next]);
        release(sum->terms[next]);
      }
      return true;
    }
  }
  return false;
}

bool Pebbler::apply_function(Held* held) {
  const auto& [operand, i, j] = held->first;
  // f takes the place of the score in p's word while LSE is there.
  if (operand == Operand::p) {
    const Entry* score = cdag_.find(Value::scores, i, j);
    if (score != nullptr && held->second == score->root && apply(held, Value::f)) return true;
  }
  return ends_in_function(operand) && apply(held, stages_of(operand).back());
}

bool Pebbler::apply(Held* held, Value value) {
  const Entry* entry = cdag_.find(value, std::get<1>(held->first), std::get<2>(held->first));
  if (entry == nullptr || !entry->partial.empty() || held->second == entry->root) return false;
  if (!can_compute(entry->root)) return false;
  const std::span<const node_t> parents = cdag_.graph().parents(entry->root);
  for (const node_t parent : parents) make(parent);
  compute(entry->root);
  replace(held, entry->root);
  for (const node_t parent : parents) release(parent);
  return true;
}

bool Pebbler::can_compute(node_t v) const {
  const std::span<const node_t> parents = cdag_.graph().parents(v);
  return !parents.empty() && std::all_of(parents.begin(), parents.end(), [this](node_t u) {
    return is_red(u) || (is_passing(u) && can_compute(u));
  });
}

// Whether a node may be red without a word of its own. A sum of one term is that term, and has one.
bool Pebbler::is_passing(node_t v) const {
  const Node& node = cdag_.graph().node(v);
  const auto is_sum = [&](Value value, index_t col) {
    const Entry* entry = cdag_.find(value, node.i, col);
    return entry != nullptr && entry->root == v && !entry->partial.empty();
  };
  if (node.role == Role::input || is_sum(Value::row_sum, 0) || is_sum(Value::delta, 0))
    return false;
  switch (node.value) {
    case Value::weight:
    case Value::f:
    case Value::f_q:
    case Value::f_delta:
    case Value::difference:
    case Value::q: return true;
    default: return node.role == Role::product && !is_sum(node.value, node.j);
  }
}

void Pebbler::make(node_t v) {
  if (is_red(v)) {
    ++holders_[at(v)];
    return;
  }
  const std::span<const node_t> parents = cdag_.graph().parents(v);
  for (const node_t parent : parents) make(parent);
  compute(v);
  take_place(v);
  for (const node_t parent : parents) release(parent);
}

void Pebbler::compute(node_t v) {
  moves_.push_back({Rule::compute, v});
  ++holders_[at(v)];
}

// A weight replaces its score in a tile that becomes weights: that of f or p, and where the
// division is deferred every tile of scores.
void Pebbler::take_place(node_t v) {
  const Node& node = cdag_.graph().node(v);
  const bool deferred = cdag_.recipe().statistics == Statistics::deferred;
  if (node.value != Value::f && !(node.value == Value::weight && deferred)) return;
  const node_t score = cdag_.at(Value::scores, node.i, node.j).root;
  for (const Operand operand : {Operand::scores, Operand::f, Operand::p}) {
    if (operand == Operand::scores && !deferred) continue;
    const auto held = words_.find({operand, node.i, node.j});
    if (held == words_.end() || held->second != score) continue;
    ++holders_[at(v)];
    replace(&*held, v);
    return;
  }
}

// The word takes over a holder of its new node.
void Pebbler::replace(Held* held, node_t by) {
  if (held->second != no_node) release(held->second);
  held->second = by;
}

void Pebbler::release(node_t v) {
  if (--holders_[at(v)] == 0) moves_.push_back({Rule::remove, v});
}

}  // namespace ioattn::pebble
