#include "instruments/io_counter.hpp"

#include <algorithm>

namespace ioattn::instruments {

std::size_t IoCounter::KeyHash::operator()(const Key& key) const {
  std::uint64_t x = static_cast<std::uint64_t>(key.row) * 0x9e3779b97f4a7c15u;
  x ^= static_cast<std::uint64_t>(key.col) * 0xc2b2ae3d27d4eb4fu;
  x ^= static_cast<std::uint64_t>(key.operand) * 0x165667b19e3779f9u;
  return static_cast<std::size_t>(x ^ (x >> 29));
}

IoCount& IoCounter::current() {
  if (phases_.empty()) phases_.push_back({"", {}});
  return phases_.back().count;
}

void IoCounter::phase(const char* name) {
  phases_.push_back({name, {}});
  phases_.back().count.footprint = resident_words_;
}

void IoCounter::place(const Block& block, index_t IoCount::*counter) {
  const index_t words = block.words();
  if (!resident_.emplace(Key{block.operand, block.row, block.col}, words).second) {
    break_rule("made resident twice", block);
    return;
  }
  IoCount& phase_count = current();
  total_.*counter += words;
  phase_count.*counter += words;
  resident_words_ += words;
  total_.footprint = std::max(total_.footprint, resident_words_);
  phase_count.footprint = std::max(phase_count.footprint, resident_words_);
}

void IoCounter::read(const Block& block) { place(block, &IoCount::reads); }

void IoCounter::create(const Block& block) { place(block, &IoCount::created); }

void IoCounter::write(const Block& block) {
  const auto found = resident_.find(Key{block.operand, block.row, block.col});
  if (found == resident_.end() || found->second != block.words()) {
    break_rule("written while not resident", block);
    return;
  }
  total_.writes += block.words();
  current().writes += block.words();
}

void IoCounter::remove(const Block& block) {
  const auto found = resident_.find(Key{block.operand, block.row, block.col});
  if (found == resident_.end() || found->second != block.words()) {
    break_rule("removed while not resident", block);
    return;
  }
  resident_words_ -= block.words();
  resident_.erase(found);
}

void IoCounter::break_rule(const char* rule, const Block& block) {
  if (!violation_.empty()) return;
  violation_ = std::string(name_of(block.operand)) + "(" + std::to_string(block.row) + "," +
               std::to_string(block.col) + ")[" + std::to_string(block.rows) + "x" +
               std::to_string(block.cols) + "] " + rule;
}

std::string IoCounter::violation() const {
  if (!violation_.empty() || resident_.empty()) return violation_;
  const Key& key = resident_.begin()->first;
  return std::string(name_of(key.operand)) + "(" + std::to_string(key.row) + "," +
         std::to_string(key.col) + ") never removed";
}

}  // namespace ioattn::instruments
