#include "machine/levels.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

// The least cache that can be meant: one line.
constexpr index_t override_least_bytes = 64;

// Small enough for the cores that were sold in the last decade.
constexpr index_t assumed_bytes[] = {index_t{32} << 10, index_t{512} << 10};

constexpr const char* level_names[deepest_level] = {"L1", "L2", "L3"};
std::string name_of_level(int level) { return level_names[level - 1]; }

CacheLevel* at_level(std::vector<CacheLevel>* caches, int level) {
  const auto found = std::find_if(caches->begin(), caches->end(),
                                  [=](const CacheLevel& c) { return c.level >= level; });
  if (found != caches->end() && found->level == level) return &*found;
  CacheLevel fresh;
  fresh.level = level;
  return &*caches->insert(found, fresh);
}

}  // namespace

bool Topology::has_caches() const {
  return std::any_of(cpus.begin(), cpus.end(),
                     [](const CpuCaches& cpu) { return !cpu.levels.empty(); });
}

CacheLevel make_level(int level, index_t size_bytes, int line_bytes, int ways, int sharing_cpus,
                      Source source) {
  CacheLevel cache;
  cache.level = level;
  cache.size_bytes = size_bytes;
  cache.line_bytes = std::max(line_bytes, 0);
  cache.ways = std::max(ways, 0);
  cache.sharing_cpus = sharing_cpus;
  cache.share_bytes = size_bytes / std::max(sharing_cpus, 1);
  cache.source = source;
  cache.line_source = cache.line_bytes > 0 ? source : Source::unknown;
  return cache;
}

std::vector<CacheLevel> least_over_cpus(const Topology& topology, std::vector<std::string>* notes) {
  std::vector<CacheLevel> caches;
  for (int level = 1; level <= deepest_level; ++level) {
    std::optional<CacheLevel> least;
    bool differ = false;
    bool missing = false;
    for (const CpuCaches& cpu : topology.cpus) {
      bool found = false;
      for (const CacheLevel& cache : cpu.levels) {
        if (cache.level != level) continue;
        found = true;
        differ = differ || (least && least->share_bytes != cache.share_bytes);
        if (!least || cache.share_bytes < least->share_bytes) least = cache;
      }
      missing = missing || !found;
    }
    if (!least) continue;
    // A plan for L3 would thrash on the CPUs without one; L1 and L2 have no better estimate.
    if (missing && level == deepest_level) {
      notes->push_back("Some CPUs have no L3: it is left out.");
      continue;
    }
    const std::string name = name_of_level(level);
    if (missing) notes->push_back("Some CPUs show no " + name + ": the others' is taken.");
    if (differ) notes->push_back("CPUs differ in " + name + ": the least share is taken.");
    if (least->sharing_cpus == 0) {
      notes->push_back("Who shares " + name + " is unknown: it is counted as private.");
    }
    caches.push_back(*least);
  }
  return caches;
}

void apply_overrides(std::vector<CacheLevel>* caches, std::vector<std::string>* notes) {
  for (int level = 1; level <= deepest_level; ++level) {
    const std::string variable = "IOATTN_" + name_of_level(level);
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr || *text == '\0') continue;
    const std::optional<index_t> bytes = parse_bytes(text);
    if (!bytes || *bytes < override_least_bytes || *bytes > cache_bytes_limit) {
      // The value is not repeated: it may be no text at all.
      notes->push_back(variable + " is ignored: it is not a number of bytes from " +
                       std::to_string(override_least_bytes) + " to " +
                       std::to_string(cache_bytes_limit) + " (k, M or G may follow).");
      continue;
    }
    CacheLevel* cache = at_level(caches, level);
    cache->size_bytes = *bytes;
    cache->share_bytes = *bytes;
    // The ways and sharers found belong to a cache of another size.
    cache->ways = 0;
    cache->sharing_cpus = 0;
    cache->source = Source::override_variable;
  }
}

void assume_missing(std::vector<CacheLevel>* caches, std::vector<std::string>* notes) {
  for (int level = 1; level <= 2; ++level) {
    CacheLevel* cache = at_level(caches, level);
    if (cache->source != Source::unknown) continue;
    *cache = make_level(level, assumed_bytes[level - 1], 0, 0, 0, Source::assumed);
    notes->push_back(
        name_of_level(level) + " is unknown: " + std::to_string(cache->size_bytes >> 10) +
        " KiB per thread are assumed (set IOATTN_" + name_of_level(level) + " to change it).");
  }
}

}  // namespace ioattn::machine
