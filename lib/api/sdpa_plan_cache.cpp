#include "api/sdpa_plan_cache.hpp"

#include <array>
#include <cstddef>
#include <mutex>
#include <new>

namespace ioattn::api {
namespace {

struct Entry {
  plan::SdpaRequest request;
  std::optional<SdpaSet> set;
  std::uint64_t generation;
  plan::SdpaPlan plan;
};

struct Cache {
  std::mutex mutex;
  std::array<std::optional<Entry>, 16> entries;
  std::size_t next = 0;
};

// Never destroyed, as other threads may still call while the process ends. Levels are short
// strings: no entry allocates.
Cache& the_cache() {
  alignas(Cache) static std::byte memory[sizeof(Cache)];
  static Cache* cache = new (memory) Cache;
  return *cache;
}

}  // namespace

// A child that was forked while another thread held the lock would wait forever: whoever does not
// get it at once does without.
bool find_sdpa_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                    std::uint64_t generation, plan::SdpaPlan* plan) {
  Cache& cache = the_cache();
  const std::unique_lock lock(cache.mutex, std::try_to_lock);
  if (!lock) return false;
  for (const std::optional<Entry>& entry : cache.entries) {
    if (!entry || !(entry->request == request) || entry->set != set ||
        entry->generation != generation) {
      continue;
    }
    *plan = entry->plan;
    return true;
  }
  return false;
}

void keep_sdpa_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                    std::uint64_t generation, const plan::SdpaPlan& plan) {
  Cache& cache = the_cache();
  const std::unique_lock lock(cache.mutex, std::try_to_lock);
  if (!lock) return;
  cache.entries[cache.next] = {request, set, generation, plan};
  cache.next = (cache.next + 1) % cache.entries.size();
}

}  // namespace ioattn::api
