#pragma once

#include <string>
#include <vector>

#include "base/isa.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "wisdom/text.hpp"

// JSON is written by hand, but for strings that may need escapes: not those of our own, the keys.
namespace ioattn::api {

class JsonObject {
 public:
  void add(const char* key, index_t value) { member(key, std::to_string(value)); }
  void add(const char* key, bool value) { member(key, value ? "true" : "false"); }
  void add(const char* key, const char* value) { member(key, wisdom::quoted(value)); }
  void add(const char* key, const std::string& value) { member(key, wisdom::quoted(value)); }
  void add_number(const char* key, double value);
  void add_json(const char* key, const std::string& json) { member(key, json); }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  void member(const char* key, const std::string& value) {
    members_ += (members_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
  }
  std::string members_;
};

// "[1,2]".
std::string json_list(const std::vector<std::string>& items);

// Names of the gradients in a set, as a list of strings.
template <class Set, class Named, std::size_t count>
std::string json_names(const Set& set, const Named (&gradients)[count]) {
  std::vector<std::string> names;
  for (const Named& gradient : gradients)
    if (set.*gradient.wanted) names.push_back(wisdom::quoted(gradient.name));
  return json_list(names);
}

// A matrix, or several, that a pass keeps in memory: numbers of one word each, two where the dtype
// has 16 bits.
std::string stored_json(const char* name, const std::vector<index_t>& sizes,
                        index_t words_of_number);

// What is described of every plan: kernel, words and footprint, work.
void add_cost(const IoCost& cost, JsonObject* json);
void add_kernel(const TileShape& tile, JsonObject* json);
void add_objective(const char* objective, JsonObject* json);  // null: unknown
void add_totals(const IoCost& total, JsonObject* json);
void add_bound(const theory::BoundSet& bounds, theory::AlgorithmClass algorithms, JsonObject* json);
void add_work(index_t fma, index_t workspace_bytes, JsonObject* json);

}  // namespace ioattn::api
