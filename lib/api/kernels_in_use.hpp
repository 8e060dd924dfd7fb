#pragma once

#include "base/isa.hpp"
#include "base/status.hpp"
#include "kernels/registry.hpp"

namespace ioattn::api {

// Whether IOATTN_ISA names an instruction set; then nothing else is used.
bool names_an_isa();
// The kernels that calls use: IOATTN_ISA or the best that the CPU has.
Status selected_kernels(const kernels::Kernels** kernels);

// Those of an instruction set that a plan names.
Status kernels_of(Isa isa, const kernels::Kernels** kernels);

}  // namespace ioattn::api
