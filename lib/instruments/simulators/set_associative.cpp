#include "instruments/simulators/set_associative.hpp"

#include <algorithm>
#include <bit>

namespace ioattn::instruments {

Status SetAssociativeCache::check(const CacheGeometry& geometry) {
  const auto ways = static_cast<unsigned>(geometry.ways);
  if (geometry.sets < 1 || geometry.ways < 1 || geometry.ways > 64) {
    return Status::error(StatusCode::invalid_argument, "no cache has %llu sets of %d ways",
                         static_cast<unsigned long long>(geometry.sets), geometry.ways);
  }
  if (geometry.replacement == Replacement::tree_plru && !std::has_single_bit(ways)) {
    return Status::error(StatusCode::invalid_argument,
                         "a binary tree has a power of two leaves, not %d", geometry.ways);
  }
  return Status::ok();
}

SetAssociativeCache::SetAssociativeCache(const CacheGeometry& geometry)
    : geometry_(geometry),
      way_count_(static_cast<std::size_t>(geometry.ways)),
      ways_(geometry.sets * way_count_),
      trees_(geometry.replacement == Replacement::tree_plru ? geometry.sets : 0) {}

std::size_t SetAssociativeCache::find(const Way* set, std::uint64_t line) const {
  std::size_t way = 0;
  while (way < way_count_ && set[way].line != line) ++way;
  return way;
}

std::size_t SetAssociativeCache::victim(std::uint64_t line, const Way* set) const {
  const std::size_t empty = find(set, ~std::uint64_t{0});
  if (empty < way_count_) return empty;
  if (geometry_.replacement == Replacement::lru) {
    const auto older = [](const Way& p, const Way& q) { return p.used < q.used; };
    return static_cast<std::size_t>(std::min_element(set, set + way_count_, older) - set);
  }
  // Node 1 is the root, 2k and 2k + 1 are the children of k: a set bit sends to the latter.
  const std::uint64_t tree = trees_[line % geometry_.sets];
  std::size_t node = 1;
  while (node < way_count_) node = 2 * node + (tree >> node & 1);
  return node - way_count_;
}

void SetAssociativeCache::touch(std::uint64_t line, Way* set, std::size_t way) {
  if (geometry_.replacement == Replacement::lru) {
    set[way].used = ++clock_;
    return;
  }
  std::uint64_t& tree = trees_[line % geometry_.sets];
  for (std::size_t node = way + way_count_; node > 1; node /= 2) {
    const std::uint64_t bit = std::uint64_t{1} << (node / 2);
    tree = node % 2 == 0 ? tree | bit : tree & ~bit;
  }
}

SetAssociativeCache::Outcome SetAssociativeCache::access(std::uint64_t line, bool written) {
  Way* set = set_of(line);
  Outcome outcome;
  std::size_t way = find(set, line);
  outcome.hit = way < way_count_;
  if (!outcome.hit) {
    way = victim(line, set);
    outcome.evicted_dirty = set[way].dirty;
    outcome.victim = set[way].line;
    set[way].line = line;
    set[way].dirty = false;
  }
  set[way].dirty = set[way].dirty || written;
  touch(line, set, way);
  return outcome;
}

bool SetAssociativeCache::write_back(std::uint64_t line) {
  Way* set = set_of(line);
  const std::size_t way = find(set, line);
  if (way == way_count_) return false;
  set[way].dirty = true;
  return true;
}

std::vector<std::uint64_t> SetAssociativeCache::dirty_lines() const {
  std::vector<std::uint64_t> lines;
  for (const Way& way : ways_) {
    if (way.dirty) lines.push_back(way.line);
  }
  return lines;
}

void SetAssociative::take(const Access* first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto outcome = cache_.access(first[i].line, first[i].written);
    traffic_.fills += !outcome.hit;
    traffic_.write_backs += outcome.evicted_dirty;
  }
}

LineTraffic SetAssociative::traffic() const {
  return {traffic_.fills, traffic_.write_backs + cache_.dirty_lines().size()};
}

void TwoLevel::take(const Access* first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto outcome = first_.access(first[i].line, first[i].written);
    if (outcome.hit) continue;
    ++first_traffic_.fills;
    if (outcome.evicted_dirty) {
      ++first_traffic_.write_backs;
      if (!second_.write_back(outcome.victim)) ++second_traffic_.write_backs;
    }
    const auto filled = second_.access(first[i].line, false);
    second_traffic_.fills += !filled.hit;
    second_traffic_.write_backs += filled.evicted_dirty;
  }
}

LineTraffic TwoLevel::first_level() const {
  return {first_traffic_.fills, first_traffic_.write_backs + first_.dirty_lines().size()};
}

LineTraffic TwoLevel::second_level() const {
  // What is dirty in the first alone goes on to memory; what both have goes there once.
  std::vector<std::uint64_t> lines = second_.dirty_lines();
  const std::vector<std::uint64_t> of_first = first_.dirty_lines();
  lines.insert(lines.end(), of_first.begin(), of_first.end());
  std::sort(lines.begin(), lines.end());
  const auto end = std::unique(lines.begin(), lines.end());
  return {second_traffic_.fills,
          second_traffic_.write_backs + static_cast<std::uint64_t>(end - lines.begin())};
}

}  // namespace ioattn::instruments
