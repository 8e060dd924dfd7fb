#pragma once

#include <string>
#include <vector>

#include "base/io_cost.hpp"
#include "base/observer.hpp"

namespace ioattn::instruments {

// Counts the words a schedule moves and holds it to the rules of the model: a block is read or
// created only while absent, written or removed only while resident, and nothing stays behind at
// the end.
class IoCounter final : public Observer {
 public:
  struct Phase {
    const char* name;
    IoCost count;
  };

  void phase(const char* name) override;
  void read(const Block& block) override;
  void create(const Block& block) override;
  void write(const Block& block) override;
  void remove(const Block& block) override;

  const IoCost& total() const { return total_; }
  // One per name: a batch comes to each again and again.
  const std::vector<Phase>& phases() const { return phases_; }

  // The first broken rule, or "" if there is none; includes blocks that were never removed.
  std::string violation() const;

 private:
  // The resident block with the key of `block`, or null. A schedule holds a handful of blocks at a
  // time, so they are searched one by one, the latest first.
  Block* find(const Block& block);

  void place(const Block& block, index_t moved, index_t IoCost::*counter);
  void break_rule(const char* rule, const Block& block);
  IoCost& current();

  IoCost total_;
  std::vector<Phase> phases_;
  std::size_t current_ = 0;  // of phases_
  std::vector<Block> resident_;
  index_t resident_words_ = 0;
  std::string violation_;
};

}  // namespace ioattn::instruments
