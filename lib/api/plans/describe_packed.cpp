#include <algorithm>

#include "api/plans/describe.hpp"
#include "api/plans/packed_plan.hpp"

namespace ioattn::api {

std::string PackedPlan::describe(const OverflowStatistics& overflows) const {
  const DType dtype = goal_.problem.dtype;
  const bool is_forward = goal_.pass == Pass::forward;
  IoCost total;
  index_t fma = 0, queries = 0, keys = 0;
  std::vector<std::string> shapes;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const PackedShape& shape = work_.shapes()[i];
    const SdpaShape& sizes = shape.problem.shape;
    queries += shape.count * sizes.n;
    keys += shape.count * sizes.m;
    JsonObject item;
    item.add("sequences", shape.count);
    item.add_json("plan", plans_[i].describe());
    shapes.push_back(item.text());
    if (!(sizes == shape_to_plan(sizes))) continue;  // which is told as if of size 1
    total += times(shape.count, plans_[i].cost().total());
    fma += shape.count * plans_[i].fma();
  }

  JsonObject json;
  json.add("sequences", static_cast<index_t>(goal_.sequences.size()));
  json.add("queries", queries);
  json.add("keys", keys);
  add_goal(goal_.pass, goal_.gradients, dtype, &json);
  json.add("plan", text());
  json.add("threads", index_t(work_.threads()));
  add_totals(total, &json);
  add_work(fma, workspace_bytes(), &json);
  json.add_json("overflows", overflows.text(is_forward ? rounded_results(dtype)
                                                       : rounded_results(dtype, goal_.gradients)));
  json.add_json("shapes", json_list(shapes));
  return json.text();
}

}  // namespace ioattn::api
