#include "api/plans/describe.hpp"

#include <charconv>

namespace ioattn::api {

void JsonObject::add_number(const char* key, double value) {
  char text[40];  // in no locale
  const std::to_chars_result end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, 17);
  member(key, std::string(text, end.ptr));
}

std::string json_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return "[" + text + "]";
}

void add_cost(const IoCost& cost, JsonObject* json) {
  json->add("reads", cost.reads);
  json->add("writes", cost.writes);
  json->add("created", cost.created);
  json->add("footprint", cost.footprint);
}

void add_kernel(const TileShape& tile, JsonObject* json) {
  json->add("isa", name_of(tile.isa));
  json->add("tile_rows", index_t(tile.rows));
  json->add("tile_cols", index_t(tile.cols));
}

void add_objective(const char* objective, JsonObject* json) {
  if (objective == nullptr) {
    json->add_json("objective", "null");
  } else {
    json->add("objective", objective);
  }
}

void add_totals(const IoCost& total, JsonObject* json) {
  add_cost(total, json);
  json->add("words", total.words());
}

void add_bound(const theory::BoundSet& bounds, theory::AlgorithmClass algorithms,
               JsonObject* json) {
  const theory::Bound bound = bounds.best(algorithms);
  json->add("class", theory::name_of(algorithms));
  json->add_number("lower_bound", bound.words);
  json->add("bound", bound.name);
}

void add_work(index_t fma, index_t workspace_bytes, JsonObject* json) {
  json->add("fma", fma);
  json->add("flops", 2 * fma);
  json->add("workspace_bytes", workspace_bytes);
}

std::string stored_json(const char* name, const std::vector<index_t>& sizes,
                        index_t words_of_number) {
  std::vector<std::string> texts;
  index_t words = words_of_number;
  for (const index_t size : sizes) {
    texts.push_back(std::to_string(size));
    words *= size;
  }
  JsonObject stored;
  stored.add("name", name);
  stored.add_json("shape", json_list(texts));
  stored.add("words", words);
  return stored.text();
}

}  // namespace ioattn::api
