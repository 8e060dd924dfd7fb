#include "machine/machine.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "machine/cgroup.hpp"
#include "machine/cpu_list.hpp"
#include "machine/levels.hpp"
#include "machine/processor.hpp"
#include "machine/provider.hpp"
#include "machine/tile_registers.hpp"
#include "parallel/parallel.hpp"

namespace ioattn::machine {
namespace {

void append(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

CpuList find_cpus(const DetectOptions& options, Machine* machine) {
  CpuList cpus = options.allowed_cpus;
  if (cpus.empty()) cpus = parallel::bound_cpus();
  sort_unique(&cpus);
  if (cpus.empty()) cpus = affinity();
  machine->cpus_source = Source::affinity;
  if (cpus.empty()) {
    machine->cpus_source = Source::assumed;
    machine->notes.push_back("The CPUs that may be used are unknown: one is assumed.");
    cpus = {0};
  }
  machine->allowed_cpus = static_cast<int>(cpus.size());
  return cpus;
}

void find_caches(const DetectOptions& options, const CpuList& cpus, Machine* machine) {
  Topology topology;
  if (options.use_hwloc) topology = topology_from_hwloc(cpus);
  append(topology.notes, &machine->notes);
  if (!topology.has_caches()) {
    topology = topology_from_sysfs(options.sysfs_root, cpus);
    append(topology.notes, &machine->notes);
  }
  machine->caches = least_over_cpus(topology, &machine->notes);
  if (machine->virtual_machine && topology.this_system && machine->cache(3) != nullptr) {
    machine->notes.push_back("A hypervisor runs this CPU: L3 is what it tells and may be shared.");
  }
  if (options.use_environment) apply_overrides(&machine->caches, &machine->notes);
  assume_missing(&machine->caches, &machine->notes);
}

void find_threads(const DetectOptions& options, Machine* machine) {
  const CpuQuota quota = read_cpu_quota(options.sysfs_root, options.proc_root);
  append(quota.notes, &machine->notes);
  machine->cpu_quota = quota.cpus;
  machine->quota_source = quota.source;
  machine->usable_threads = usable_threads(machine->allowed_cpus, quota.cpus);
  if (machine->usable_threads < machine->allowed_cpus) {
    machine->notes.push_back("The cgroup's CPU quota leaves " +
                             std::to_string(machine->usable_threads) + " of " +
                             std::to_string(machine->allowed_cpus) + " CPUs' worth of time.");
  }
}

void find_tiles(const DetectOptions& options, Machine* machine) {
  const char* const wanted = options.use_environment ? std::getenv("IOATTN_ISA") : nullptr;
  machine->no_tiles = request_tiles(this_tile_system(), machine->isa, wanted);
  if (machine->no_tiles.empty()) machine->isa.add(Isa::avx512_amx);
}

}  // namespace

IsaSet fast_isa(const Machine& machine) {
  IsaSet fast = machine.isa;
  if (machine.vendor == "GenuineIntel") fast.remove(Isa::avx512_bf16);
  return fast;
}

const char* name_of(Source source) {
  switch (source) {
    case Source::unknown: return "unknown";
    case Source::override_variable: return "override";
    case Source::hwloc: return "hwloc";
    case Source::sysfs: return "sysfs";
    case Source::assumed: return "assumed";
    case Source::affinity: return "affinity";
  }
  return "unknown";
}

const CacheLevel* Machine::cache(int level) const {
  const auto found = std::find_if(caches.begin(), caches.end(),
                                  [=](const CacheLevel& c) { return c.level == level; });
  return found == caches.end() ? nullptr : &*found;
}

Machine detect(const DetectOptions& options) {
  Machine machine;
  Processor processor = read_processor(options.proc_root);
  machine.vendor = std::move(processor.vendor);
  machine.model = std::move(processor.model);
  machine.family = processor.family;
  machine.model_number = processor.model_number;
  machine.stepping = processor.stepping;
  machine.virtual_machine = processor.virtual_machine;
  machine.isa = processor.isa;
  find_tiles(options, &machine);
  const CpuList cpus = find_cpus(options, &machine);
  find_caches(options, cpus, &machine);
  find_threads(options, &machine);
  return machine;
}

// Whoever is first: nobody waits for another's look, which a child that is forked meanwhile would
// do for ever.
const Machine& this_machine() {
  static std::atomic<const Machine*> known{nullptr};
  const Machine* machine = known.load(std::memory_order_acquire);
  if (machine != nullptr) return *machine;
  auto mine = std::make_unique<const Machine>(detect());
  if (known.compare_exchange_strong(machine, mine.get(), std::memory_order_acq_rel))
    return *mine.release();
  return *machine;
}

FastMemory fast_memory(const CacheLevel& cache, DType dtype) {
  const index_t quarters = cache.level == 1 ? 2 : 3;
  const index_t unit = 4 * size_of(dtype);
  FastMemory result;
  result.level = cache.level;
  result.share_bytes = std::max(cache.share_bytes, index_t{0});
  result.fraction = static_cast<double>(quarters) / 4;
  // floor(share * quarters / unit), split so that no product leaves 64 bits.
  result.words = result.share_bytes / unit * quarters + result.share_bytes % unit * quarters / unit;
  result.source = cache.source;
  return result;
}

}  // namespace ioattn::machine
