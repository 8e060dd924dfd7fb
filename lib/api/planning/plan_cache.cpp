#include "api/planning/plan_cache.hpp"

#include <new>

namespace ioattn::api {
namespace {

// Never destroyed, as other threads may still call while the process ends.
template <class Cache>
Cache& the_only() {
  alignas(Cache) static std::byte memory[sizeof(Cache)];
  static Cache* cache = new (memory) Cache;
  return *cache;
}

}  // namespace

SdpaPlanCache& sdpa_plans() { return the_only<SdpaPlanCache>(); }
LayerPlanCache& layer_plans() { return the_only<LayerPlanCache>(); }

}  // namespace ioattn::api
