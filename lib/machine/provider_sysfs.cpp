// Linux: Documentation/ABI/testing/sysfs-devices-system-cpu, cpu*/cache/index*.
#include "machine/provider.hpp"
#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

// Unreadable and out of range are both unknown.
int read_int(const std::string& path) {
  const std::optional<std::string> line = first_line(path);
  const std::optional<index_t> value = line ? parse_integer(*line) : std::nullopt;
  return value && *value <= INT32_MAX ? static_cast<int>(*value) : 0;
}

void read_index(const std::string& folder, const CpuList& allowed, CpuCaches* caches) {
  const std::optional<std::string> type = first_line(folder + "/type");
  if (!type || (*type != "Data" && *type != "Unified")) return;
  const int level = read_int(folder + "/level");
  const std::optional<std::string> size = first_line(folder + "/size");
  const std::optional<index_t> bytes = size ? parse_bytes(*size) : std::nullopt;
  if (level < 1 || level > deepest_level) return;
  if (!bytes || *bytes < 1 || *bytes > cache_bytes_limit) return;
  const std::optional<std::string> shared = first_line(folder + "/shared_cpu_list");
  const std::optional<CpuList> sharers = shared ? parse_cpu_list(*shared) : std::nullopt;
  caches->levels.push_back(make_level(level, *bytes, read_int(folder + "/coherency_line_size"),
                                      read_int(folder + "/ways_of_associativity"),
                                      sharers ? count_common(*sharers, allowed) : 0,
                                      Source::sysfs));
}

}  // namespace

Topology topology_from_sysfs(const std::string& sysfs_root, const CpuList& allowed) {
  Topology result;
  for (const int cpu : allowed) {
    CpuCaches caches;
    caches.cpu = cpu;
    const std::string folder =
        sysfs_root + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
    // Indices are dense; the kernel makes no folder for what it does not know.
    for (int index = 0; first_line(folder + std::to_string(index) + "/level"); ++index) {
      read_index(folder + std::to_string(index), allowed, &caches);
    }
    result.cpus.push_back(std::move(caches));
  }
  if (!result.has_caches()) result.notes.push_back("sysfs lists no caches.");
  return result;
}

}  // namespace ioattn::machine
