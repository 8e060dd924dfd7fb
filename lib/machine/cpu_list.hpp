#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace ioattn::machine {

// Operating system numbers of CPUs, ascending, each once.
using CpuList = std::vector<int>;

// The CPUs that the calling thread may run on; empty if the kernel does not say.
CpuList affinity();

// The kernel's list format: "0-3,8". nullopt if the text is anything else.
std::optional<CpuList> parse_cpu_list(std::string_view text);

void sort_unique(CpuList* cpus);
int count_common(const CpuList& a, const CpuList& b);

}  // namespace ioattn::machine
