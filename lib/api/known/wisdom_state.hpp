#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "api/known/price.hpp"
#include "base/isa.hpp"
#include "wisdom/places.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::api {

// This library on this machine with one of its instruction sets.
wisdom::Environment environment_of(Isa isa);

// What a process knows at one time; it never changes.
struct KnownWisdom {
  struct File {
    std::string path;
    wisdom::Verdict verdict;
    index_t records = 0;  // of any environment
  };
  wisdom::Wisdom wisdom;
  std::vector<wisdom::Environment> here;  // by Isa
  std::vector<KnownPrice> prices;         // by Isa, then DType
  wisdom::Places places;
  std::vector<File> files;       // that were read by themselves
  std::uint64_t generation = 1;  // one more with every change
  // What came before, as long as readers may have it; for whoever changes it alone.
  mutable const KnownWisdom* older = nullptr;

  const wisdom::Environment& environment(Isa isa) const {
    return here[static_cast<std::size_t>(isa)];
  }
  const KnownPrice& price(Isa isa, DType dtype) const {
    return prices[static_cast<std::size_t>(isa) * dtypes + static_cast<std::size_t>(dtype)];
  }
  static constexpr std::size_t dtypes = std::size(types_of_rates);
};

// What the process knows now: the files are read when it is first asked for. Readers never wait
// for a lock, so that a forked child always has it, and every call of a plan finds the same.
class WisdomReading {
 public:
  WisdomReading();
  ~WisdomReading();
  WisdomReading(const WisdomReading&) = delete;
  WisdomReading& operator=(const WisdomReading&) = delete;

  const KnownWisdom* operator->() const { return known_; }
  const KnownWisdom& operator*() const { return *known_; }

 private:
  const KnownWisdom* known_;
};

// The date of what is learned now, as records have it.
std::string date_now();

// Changes it for all later readers.
void change_wisdom(const std::function<void(wisdom::Wisdom*)>& change);

// Whether some of it was learned here, with any instruction set; else why the first was not. Fine
// if there is nothing.
wisdom::Verdict compare_with_here(const wisdom::Wisdom& wisdom, const KnownWisdom& known);

}  // namespace ioattn::api
