#include <cstdlib>

#include "machine/provider.hpp"

namespace ioattn::machine {

bool built_with_hwloc() { return false; }

Topology topology_from_hwloc(const CpuList&) {
  Topology result;
  if (std::getenv("HWLOC_XMLFILE") != nullptr) {
    result.notes.push_back("HWLOC_XMLFILE is ignored: this build has no hwloc.");
  }
  return result;
}

}  // namespace ioattn::machine
