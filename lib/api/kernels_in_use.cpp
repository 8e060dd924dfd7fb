#include "api/kernels_in_use.hpp"

#include <cstdlib>
#include <string_view>

#include "machine/datapath.hpp"
#include "machine/machine.hpp"

namespace ioattn::api {

bool names_an_isa() {
  const char* const wanted = std::getenv("IOATTN_ISA");
  return wanted != nullptr && *wanted != '\0';
}

Status selected_kernels(const kernels::Kernels** kernels) {
  const machine::Machine& machine = machine::this_machine();
  const char* const wanted = std::getenv("IOATTN_ISA");
  const Status status = kernels::select_kernels(
      names_an_isa() ? machine.isa : machine::fast_isa(machine), wanted, kernels);
  const bool lacks_tiles = status.code() == StatusCode::unsupported && !machine.no_tiles.empty() &&
                           wanted != nullptr &&
                           std::string_view(wanted) == name_of(Isa::avx512_amx);
  if (!lacks_tiles) return status;
  return Status::error(status.code(), "%s (%s)", status.message(), machine.no_tiles.c_str());
}

Status kernels_of(Isa isa, const kernels::Kernels** kernels) {
  *kernels = kernels::find_kernels(isa, machine::datapath_bits());
  const machine::Machine& machine = machine::this_machine();
  if (*kernels == nullptr || !machine.isa.has(isa)) {
    const bool tiles = isa == Isa::avx512_amx && *kernels != nullptr;
    return Status::error(StatusCode::unsupported, "the plan's ISA %s is not available here%s%s%s",
                         name_of(isa), tiles ? " (" : "", tiles ? machine.no_tiles.c_str() : "",
                         tiles ? ")" : "");
  }
  return Status::ok();
}

}  // namespace ioattn::api
