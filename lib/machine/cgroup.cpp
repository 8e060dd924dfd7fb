#include "machine/cgroup.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

// One line of /proc/self/cgroup, "id:controllers:path": "0::/a/b" (v2), "4:cpu,cpuacct:/a/b" (v1).
struct Membership {
  std::string controllers;
  std::string path;
  bool v2() const { return controllers.empty(); }
  bool v1_cpu() const { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }
};

std::optional<Membership> parse_membership(const std::string& line) {
  const std::size_t first = line.find(':');
  if (first == std::string::npos) return std::nullopt;
  const std::size_t second = line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  Membership result{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
  // "/../x" lies above what is mounted, of which only the root is an ancestor.
  if ((result.path + "/").find("/../") != std::string::npos) result.path.clear();
  while (!result.path.empty() && result.path.back() == '/') result.path.pop_back();
  return result;
}

void limit(std::string_view quota, std::string_view period, CpuQuota* result) {
  result->source = Source::sysfs;
  if (quota == "max" || quota == "-1") return;
  const std::optional<index_t> used = parse_integer(quota);
  const std::optional<index_t> per = parse_integer(period);
  if (!used || !per || *used < 1 || *per < 1) {
    result->notes.push_back("A CPU quota of the cgroup is not understood and is ignored.");
    return;
  }
  const double cpus = static_cast<double>(*used) / static_cast<double>(*per);
  result->cpus = result->cpus > 0 ? std::min(result->cpus, cpus) : cpus;
}

void read_folder(const std::string& folder, CpuQuota* result) {
  if (const auto line = first_line(folder + "/cpu.max")) {
    const std::size_t space = std::min(line->find(' '), line->size());
    const std::string_view text = *line;
    limit(text.substr(0, space), text.substr(std::min(space + 1, text.size())), result);
  }
  if (const auto quota = first_line(folder + "/cpu.cfs_quota_us")) {
    limit(*quota, first_line(folder + "/cpu.cfs_period_us").value_or(""), result);
  }
  // Every cgroup has this file, those without a limit too.
  std::error_code ignored;
  if (std::filesystem::exists(folder + "/cgroup.procs", ignored)) result->source = Source::sysfs;
}

// In a container the path may be the host's while only a part of the tree is mounted: folders that
// are not there are passed over, the mount's own folder comes last.
void read_up_to_root(const std::string& mount, std::string path, CpuQuota* result) {
  for (;;) {
    read_folder(mount + path, result);
    if (path.empty()) return;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

CpuQuota read_cpu_quota(const std::string& sysfs_root, const std::string& proc_root) {
  CpuQuota result;
  const std::string mount = sysfs_root + "/fs/cgroup";
  std::ifstream memberships(proc_root + "/self/cgroup");
  for (std::string line; next_line(&memberships, &line);) {
    const std::optional<Membership> member = parse_membership(line);
    if (!member) continue;
    if (member->v2()) {
      read_up_to_root(mount, member->path, &result);
      read_up_to_root(mount + "/unified", member->path, &result);
    } else if (member->v1_cpu()) {
      read_up_to_root(mount + "/" + member->controllers, member->path, &result);
      read_up_to_root(mount + "/cpu", member->path, &result);
    }
  }
  if (result.source == Source::unknown) {
    result.notes.push_back("No cgroup of this process can be read: no CPU quota is counted.");
  }
  return result;
}

int usable_threads(int allowed_cpus, double cpu_quota) {
  if (cpu_quota <= 0 || cpu_quota >= allowed_cpus) return std::max(allowed_cpus, 1);
  return std::max(static_cast<int>(std::ceil(cpu_quota)), 1);
}

}  // namespace ioattn::machine
