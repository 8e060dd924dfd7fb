#include "instruments/created_memory.hpp"

#include <algorithm>
#include <numeric>

namespace ioattn::instruments {
namespace {

bool is_tile(Operand operand) {
  return operand == Operand::scores || operand == Operand::q || operand == Operand::f ||
         operand == Operand::p;
}

}  // namespace

CreatedMemory::Tile* CreatedMemory::find(const Block& block) {
  for (Tile& tile : tiles_) {
    const Block& held = tile.block;
    if (held.operand == block.operand && held.row == block.row && held.col == block.col) {
      return &tile;
    }
  }
  return nullptr;
}

void CreatedMemory::create(const Block& block) {
  next_->create(block);
  if (!is_tile(block.operand)) {
    words_ += block.words();
    return;
  }
  tiles_.push_back({block, false});
  resident_[static_cast<std::size_t>(block.operand)] += block.words();
}

void CreatedMemory::write(const Block& block) {
  next_->write(block);
  if (Tile* tile = find(block)) tile->written = true;
}

void CreatedMemory::remove(const Block& block) {
  next_->remove(block);
  Tile* tile = find(block);
  if (tile == nullptr) return;
  const auto kind = static_cast<std::size_t>(block.operand);
  if (tile->written) {
    words_ += block.words();
  } else {
    most_[kind] = std::max(most_[kind], resident_[kind]);
  }
  resident_[kind] -= block.words();
  *tile = tiles_.back();
  tiles_.pop_back();
}

index_t CreatedMemory::words() const { return std::accumulate(most_.begin(), most_.end(), words_); }

}  // namespace ioattn::instruments
