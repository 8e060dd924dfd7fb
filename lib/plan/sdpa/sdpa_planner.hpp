#pragma once

#include <optional>

#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "plan/blocks/resources.hpp"
#include "plan/candidate.hpp"
#include "plan/sdpa/sdpa_plan.hpp"

namespace ioattn::plan {

// How the pass is computed: by rows of queries and, backward, of keys, in two passes or in one; or
// by tiles.
enum class SdpaForm : std::uint8_t { rows, one_pass, tiles };
constexpr const char* name_of(SdpaForm form) {
  return form == SdpaForm::rows ? "rows" : form == SdpaForm::one_pass ? "one_pass" : "tiles";
}

struct SdpaRequest : Resources {
  SdpaShape shape;  // sizes at least 1
  DType dtype = DType::f32;
  // What a search looks at apart.
  std::optional<SdpaForm> form = {};  // no other
  bool outer_only = false;            // blocks in outer_M

  bool operator==(const SdpaRequest&) const = default;
  FastMemory memory(bool outer) const { return memory_for(dtype, outer); }
  bool takes(SdpaForm one) const { return !form || *form == one; }
};

// Blocks of one head, held in M words or, where time decides and that is a twentieth faster (a pass
// over the keys in f32 or f64: a hundredth), in outer_M, which all heads share. They do not depend
// on the mask, so that slices of a sequence have the same. Fail with fast_memory_too_small (naming
// the least M that works), memory_limit or, where the request takes one form alone, unsupported. No
// set: the forward pass.
Status make_plan_of(const SdpaRequest& request, const std::optional<SdpaSet>& set, SdpaPlan* plan,
                    Estimate* estimate = nullptr);

// Rows of a forward plan, of a whole head, as many more of the heads that share keys with it as the
// memory of the plan's level has room for: keys then pass by once for all. No result depends on it.
void add_rows_of_group(const SdpaRequest& request, SdpaPlan* plan);

// What any plan of the request's level, or of outer_M, costs; the time is not looked at.
void estimate_costs(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                    const SdpaPlan& plan, Estimate* estimate);

// Whether the scratch memory of gradients, delta of so many queries, is within a limit in bytes;
// below 0 there is none. dQ in 16 bits is made on the way only where there is room for its sums
// too.
Status check_scratch(const SdpaSet& set, index_t queries, DType dtype, index_t limit);

}  // namespace ioattn::plan
