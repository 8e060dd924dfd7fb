#pragma once

#include <string>

#include "api/run_options.hpp"

namespace ioattn::api {

// What the text of a plan leaves to the machine that reads it. Its kernels have to be here, with
// the same register tile. *M is that of the level, as the planner takes it; of level "M" that of
// the options: 0 is what the plan itself needs.
Status adopt_parsed(const std::string& level, const TileShape& tile, DType dtype,
                    const RunOptions& options, index_t* M);

}  // namespace ioattn::api
