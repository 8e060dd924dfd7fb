#pragma once

#include <string>
#include <vector>

#include "machine/provider.hpp"

namespace ioattn::machine {

// The steps from what a provider saw to Machine::caches. Each keeps `caches` ascending by level and
// appends what the user should know to `notes`.
std::vector<CacheLevel> least_over_cpus(const Topology& topology, std::vector<std::string>* notes);
void apply_overrides(std::vector<CacheLevel>* caches, std::vector<std::string>* notes);
void assume_missing(std::vector<CacheLevel>* caches, std::vector<std::string>* notes);

}  // namespace ioattn::machine
