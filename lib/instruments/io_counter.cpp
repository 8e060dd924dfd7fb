#include "instruments/io_counter.hpp"

#include <algorithm>
#include <cstring>

namespace ioattn::instruments {

Block* IoCounter::find(const Block& block) {
  for (std::size_t i = resident_.size(); i-- > 0;) {
    Block& held = resident_[i];
    if (held.operand == block.operand && held.row == block.row && held.col == block.col) {
      return &held;
    }
  }
  return nullptr;
}

IoCost& IoCounter::current() {
  if (phases_.empty()) phases_.push_back({"", {}});
  return phases_[current_].count;
}

void IoCounter::phase(const char* name) {
  const auto same = [name](const Phase& phase) { return std::strcmp(phase.name, name) == 0; };
  const auto found = std::find_if(phases_.begin(), phases_.end(), same);
  current_ = static_cast<std::size_t>(found - phases_.begin());
  if (found == phases_.end()) phases_.push_back({name, {}});
  index_t& footprint = phases_[current_].count.footprint;
  footprint = std::max(footprint, resident_words_);
}

void IoCounter::place(const Block& block, index_t moved, index_t IoCost::*counter) {
  const index_t words = block.words();
  if (find(block) != nullptr) {
    break_rule("made resident twice", block);
    return;
  }
  resident_.push_back(block);
  IoCost& phase_count = current();
  total_.*counter += moved;
  phase_count.*counter += moved;
  resident_words_ += words;
  total_.footprint = std::max(total_.footprint, resident_words_);
  phase_count.footprint = std::max(phase_count.footprint, resident_words_);
}

void IoCounter::read(const Block& block) { place(block, block.moved_words(), &IoCost::reads); }

void IoCounter::create(const Block& block) { place(block, block.words(), &IoCost::created); }

void IoCounter::write(const Block& block) {
  const Block* held = find(block);
  if (held == nullptr || held->words() != block.words()) {
    break_rule("written while not resident", block);
    return;
  }
  total_.writes += block.moved_words();
  current().writes += block.moved_words();
}

void IoCounter::remove(const Block& block) {
  Block* held = find(block);
  if (held == nullptr || held->words() != block.words()) {
    break_rule("removed while not resident", block);
    return;
  }
  resident_words_ -= block.words();
  *held = resident_.back();
  resident_.pop_back();
}

void IoCounter::break_rule(const char* rule, const Block& block) {
  if (!violation_.empty()) return;
  violation_ = std::string(name_of(block.operand)) + "(" + std::to_string(block.row) + "," +
               std::to_string(block.col) + ")[" + std::to_string(block.rows) + "x" +
               std::to_string(block.cols) + "] " + rule;
}

std::string IoCounter::violation() const {
  if (!violation_.empty() || resident_.empty()) return violation_;
  const Block& left = resident_.front();
  return std::string(name_of(left.operand)) + "(" + std::to_string(left.row) + "," +
         std::to_string(left.col) + ") never removed";
}

}  // namespace ioattn::instruments
