#include "api/plans/parsed_plan.hpp"

#include "api/checks/layer_checks.hpp"
#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "machine/machine.hpp"

namespace ioattn::api {

Status adopt_parsed(const std::string& level, const TileShape& tile, DType dtype,
                    const RunOptions& options, index_t* M) {
  const kernels::Kernels* kernels = nullptr;
  const Status found = kernels_of(tile.isa, &kernels);
  if (!found.is_ok()) return found;
  const TileShape here = kernels->tile(dtype);
  if (here.rows != tile.rows || here.cols != tile.cols) {
    return Status::error(StatusCode::invalid_argument,
                         "the plan's register tile is %dx%d, but that of %s is %dx%d", tile.rows,
                         tile.cols, name_of(tile.isa), here.rows, here.cols);
  }
  *M = options.M;
  if (level == "M") return Status::ok();
  const int number = level[1] - '0';
  const machine::CacheLevel* cache = machine::this_machine().cache(number);
  if (cache == nullptr) {
    return Status::error(StatusCode::unsupported, "no %s cache was found", level.c_str());
  }
  // Blocks are in L3 because the options say so, or because L2 was too small for long ones.
  *M = number == 3 && options.cache_level != 3 ? outer_fast_memory(dtype)
                                               : machine::fast_memory(*cache, dtype).words;
  return Status::ok();
}

}  // namespace ioattn::api
