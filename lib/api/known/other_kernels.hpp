#pragma once

#include <vector>

#include "base/types.hpp"
#include "kernels/registry.hpp"
#include "wisdom/wisdom.hpp"

// Kernels of other instruction sets than that which calls use: a search may find one of them the
// faster, for some problems, and wisdom then names it.
namespace ioattn::api {

// Those that a search tries beside the ones in use, best first: what was built, this CPU has, and
// computes otherwise; not scalar code. None if IOATTN_ISA names an instruction set.
std::vector<const kernels::Kernels*> other_kernels(DType dtype);

// Of a thread, as estimates count them; 0: nobody measured them.
double multiply_adds_per_second(const wisdom::Wisdom& known, Isa isa, DType dtype);

// All but those of a tile.
std::vector<const kernels::Kernels*> kernels_beside(const TileShape& tile, DType dtype);

// How many times as long the others take for a multiply-add that estimates count, by the rates that
// were measured, or, where they were not, by the lanes that vectors have and that the CPU computes
// at a time (machine/datapath.hpp).
bool are_measured(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                  DType dtype);
double slower_by(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                 DType dtype);
double slower_by(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                 DType dtype, int datapath_bits);

// Whether calls may take a plan for these kernels; `own_only`: IOATTN_ISA names their own.
wisdom::Verdict check_kernels(const TileShape& own, bool own_only, const TileShape& of_plan,
                              DType dtype);

}  // namespace ioattn::api
