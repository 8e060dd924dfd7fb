#pragma once

#include <string>
#include <vector>

#include "base/observer.hpp"

namespace ioattn::instruments {

struct IoCount {
  index_t reads = 0;
  index_t writes = 0;
  index_t created = 0;
  index_t footprint = 0;  // peak of resident words; of a phase, with those it found

  index_t words() const { return reads + writes; }
  bool operator==(const IoCount&) const = default;
};

// Counts the words a schedule moves and holds it to the rules of the model: a block is read or
// created only while absent, written or removed only while resident, and nothing stays behind at
// the end.
class IoCounter final : public Observer {
 public:
  struct Phase {
    const char* name;
    IoCount count;
  };

  void phase(const char* name) override;
  void read(const Block& block) override;
  void create(const Block& block) override;
  void write(const Block& block) override;
  void remove(const Block& block) override;

  const IoCount& total() const { return total_; }
  // One per name: a batch comes to each again and again.
  const std::vector<Phase>& phases() const { return phases_; }

  // The first broken rule, or "" if there is none; includes blocks that were never removed.
  std::string violation() const;

 private:
  // The resident block with the key of `block`, or null. A schedule holds a handful of blocks at a
  // time, so they are searched one by one, the latest first.
  Block* find(const Block& block);

  void place(const Block& block, index_t moved, index_t IoCount::*counter);
  void break_rule(const char* rule, const Block& block);
  IoCount& current();

  IoCount total_;
  std::vector<Phase> phases_;
  std::size_t current_ = 0;  // of phases_
  std::vector<Block> resident_;
  index_t resident_words_ = 0;
  std::string violation_;
};

}  // namespace ioattn::instruments
