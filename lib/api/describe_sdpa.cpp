#include "api/describe.hpp"
#include "api/sdpa_plan.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::api {
namespace {

void add_blocks(std::string_view phase, const SdpaBlocks& blocks, JsonObject* json) {
  JsonObject sizes;
  if (phase == "delta") {
    sizes.add("rows", blocks.rows.o);
    sizes.add("cols", blocks.rows.w);
  } else if (phase == "row_stream") {
    sizes.add("r", blocks.rows.r);
    sizes.add("c", blocks.rows.c);
    sizes.add("rho", blocks.rows.rho);
  } else if (blocks.keys.c == 0) {  // forward
    sizes.add("c", blocks.rows.c);
    sizes.add("rho", blocks.rows.rho);
    sizes.add("w", blocks.rows.w);
  } else {
    sizes.add("c", blocks.keys.c);
    sizes.add("rho", blocks.keys.rho);
    if (phase == "tile_fused") sizes.add("w", blocks.keys.w);
    sizes.add("one_pass", blocks.keys.one_pass);
  }
  json->add_json("blocks", sizes.text());
}

// What outlives the phase that makes it, beside the outputs.
std::string stored_json(const SdpaShape& shape, bool delta) {
  if (!delta) return json_list({});
  JsonObject stored;
  stored.add("name", "delta");
  stored.add_json("shape", json_list({std::to_string(shape.batch), std::to_string(shape.heads),
                                      std::to_string(shape.n)}));
  stored.add("words", shape.all_heads() * shape.n);
  return json_list({stored.text()});
}

}  // namespace

std::string SdpaPlan::describe() const {
  const SdpaShape shape = shape_to_plan(goal_.problem.shape);
  const SdpaSet& set = goal_.gradients;
  const SdpaBlocks& blocks = plan_.blocks;
  const theory::ScheduleCost cost = is_forward() ? theory::sdpa_forward_cost(shape, blocks.rows)
                                                 : theory::sdpa_backward_cost(shape, set, blocks);
  const index_t fma = is_forward() ? theory::sdpa_forward_fma(shape)
                                   : theory::sdpa_backward_fma(shape, set, blocks.keys.one_pass);
  const theory::IoCost total = cost.total();

  JsonObject json;
  json.add("problem", to_text(goal_.problem));
  json.add("pass", name_of(goal_.pass));
  if (!is_forward()) {
    json.add_json(
        "gradients",
        json_names({{set.dQ, "dQ"}, {set.dK, "dK"}, {set.dV, "dV"}, {set.dBias, "dBias"}}));
    json.add("accumulate", set.accumulate);
  }
  json.add("plan", text());
  add_kernel(plan_, &json);
  json.add("threads", index_t(threads_));
  json.add("level", plan_.level);
  json.add("M", M_ > 0 ? M_ : total.footprint);
  add_totals(total, &json);
  add_work(fma, workspace_bytes_, &json);
  json.add_json("stored", stored_json(goal_.problem.shape, !is_forward() && set.delta()));

  std::vector<std::string> phases;
  for (int i = 0; i < cost.phase_count; ++i) {
    const theory::PhaseCost& phase = cost.phases[std::size_t(i)];
    JsonObject item;
    item.add("name", phase.name);
    add_blocks(phase.name, blocks, &item);
    add_cost(phase.cost, &item);
    phases.push_back(item.text());
  }
  json.add_json("phases", json_list(phases));
  return json.text();
}

}  // namespace ioattn::api
