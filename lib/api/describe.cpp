#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "api/layer_plan.hpp"
#include "machine/machine.hpp"
#include "theory/bounds.hpp"
#include "theory/io_cost.hpp"

// JSON is written by hand: numbers, and strings of our own that need no escapes.
namespace ioattn::api {
namespace {

class JsonObject {
 public:
  void add(const char* key, index_t value) { member(key, std::to_string(value)); }
  void add(const char* key, bool value) { member(key, value ? "true" : "false"); }
  void add(const char* key, const char* value) { member(key, quoted(value)); }
  void add(const char* key, const std::string& value) { member(key, quoted(value)); }
  void add_number(const char* key, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    member(key, text);
  }
  void add_json(const char* key, const std::string& json) { member(key, json); }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  static std::string quoted(const std::string& value) { return "\"" + value + "\""; }
  void member(const char* key, const std::string& value) {
    members_ += (members_.empty() ? "" : ",") + quoted(key) + ":" + value;
  }
  std::string members_;
};

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return "[" + text + "]";
}

void add_cost(const theory::IoCost& cost, JsonObject* json) {
  json->add("reads", cost.reads);
  json->add("writes", cost.writes);
  json->add("created", cost.created);
  json->add("footprint", cost.footprint);
}

std::string blocks_json(const Variant& variant, const Blocks& blocks) {
  JsonObject json;
  for (const SizeField& field : size_fields()) {
    if (uses(variant, field.name)) json.add(field.name, blocks.*field.size);
  }
  for (const ProductField& field : product_fields()) {
    if (!uses(variant, field.name)) continue;
    const ProductBlocks& product = blocks.*field.product;
    JsonObject tile;
    tile.add("rows", product.rows);
    tile.add("cols", product.cols);
    tile.add("depth", product.depth);
    tile.add("keep_a", product.keep_a);
    json.add_json(field.name, tile.text());
  }
  return json.text();
}

void add_bound(Pass pass, Schedule schedule, const LayerShape& shape, index_t M, JsonObject* json) {
  const theory::AlgorithmClass algorithms = theory::class_of(pass, schedule);
  const theory::Bound bound = theory::lower_bound(pass, algorithms, shape, M);
  json->add("class", theory::name_of(algorithms));
  json->add_number("lower_bound", bound.words);
  json->add("bound", bound.name);
}

}  // namespace

std::string LayerPlan::describe() const {
  // An empty problem moves nothing; its plan is that of the least sizes.
  LayerShape shape = problem_.shape;
  for (index_t LayerShape::*size :
       {&LayerShape::n, &LayerShape::m, &LayerShape::d, &LayerShape::dv}) {
    shape.*size = std::max<index_t>(shape.*size, 1);
  }
  const Variant variant = variant_of(pass_, plan_.schedule, plan_.blocks);
  const theory::ScheduleCost cost = theory::io_cost(pass_, plan_.schedule, shape, plan_.blocks);
  const theory::IoCost total = cost.total();
  const index_t fma = theory::fma_count(pass_, plan_.schedule, shape, plan_.blocks);
  const index_t M = M_ > 0 ? M_ : total.footprint;

  JsonObject json;
  json.add("problem", to_text(problem_));
  json.add("pass", name_of(pass_));
  json.add("plan", text());
  json.add("schedule", name_of(plan_.schedule));
  json.add("variant", to_text(variant));
  json.add_json("blocks", blocks_json(variant, plan_.blocks));
  json.add("isa", name_of(plan_.isa));
  json.add("tile_rows", index_t(plan_.tile_rows));
  json.add("tile_cols", index_t(plan_.tile_cols));
  json.add("threads", index_t(threads_));
  json.add("level", plan_.level);
  json.add("M", M);
  add_cost(total, &json);
  json.add("words", total.words());
  add_bound(pass_, plan_.schedule, shape, M, &json);
  json.add("fma", fma);
  json.add("flops", 2 * fma);
  json.add("workspace_bytes", workspace_bytes_);

  std::vector<std::string> phases;
  for (int i = 0; i < cost.phase_count; ++i) {
    const theory::PhaseCost& phase = cost.phases[std::size_t(i)];
    JsonObject item;
    item.add("name", phase.name);
    add_cost(phase.cost, &item);
    phases.push_back(item.text());
  }
  json.add_json("phases", list(phases));

  // What no schedule of the same class can beat at the cache levels of this machine.
  std::vector<std::string> levels;
  for (const machine::CacheLevel& cache : machine::this_machine().caches) {
    const machine::FastMemory memory = machine::fast_memory(cache, problem_.dtype);
    if (memory.words < 1) continue;
    JsonObject item;
    item.add("level", "L" + std::to_string(cache.level));
    item.add("M", memory.words);
    item.add("regime", theory::name_of(theory::regime(shape, memory.words)));
    add_bound(pass_, plan_.schedule, shape, memory.words, &item);
    levels.push_back(item.text());
  }
  json.add_json("levels", list(levels));
  return json.text();
}

}  // namespace ioattn::api
