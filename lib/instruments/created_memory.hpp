#pragma once

#include <array>
#include <vector>

#include "base/observer.hpp"

namespace ioattn::instruments {

// Counts the created words that a cache may have to move. A score tile is made anew in its buffer
// again and again, and hardly cools in between: of each kind of tile the most words at a time count
// once, unless it is written. Rows of S, G, U and the like are used for longer, and are dead for as
// long before others take their place: they count as often as they are made.
class CreatedMemory final : public Observer {
 public:
  // Tells everything to `next` too.
  explicit CreatedMemory(Observer* next) : next_(next) {}

  void phase(const char* name) override { next_->phase(name); }
  void read(const Block& block) override { next_->read(block); }
  void create(const Block& block) override;
  void write(const Block& block) override;
  void remove(const Block& block) override;

  index_t words() const;

 private:
  struct Tile {
    Block block;
    bool written;
  };
  Tile* find(const Block& block);

  Observer* next_;
  std::vector<Tile> tiles_;                        // that are resident
  std::array<index_t, operand_count> resident_{};  // words, by kind of tile
  std::array<index_t, operand_count> most_{};      // of tiles that are not written
  index_t words_ = 0;
};

}  // namespace ioattn::instruments
