#include "wisdom/text.hpp"

#include <algorithm>

#include "wisdom/rates_text.hpp"
#include "wisdom/text_reader.hpp"

namespace ioattn::wisdom {
namespace {

constexpr int deepest = 16;

// Behind the string that begins there, or the end.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  for (std::size_t quote = begin;;) {
    quote = text.find('"', quote + 1);
    if (quote == std::string_view::npos) return text.size();
    std::size_t first = quote;  // of the backslashes before it
    while (first > begin + 1 && text[first - 1] == '\\') --first;
    if ((quote - first) % 2 == 0) return quote + 1;
  }
}

// Of brackets outside strings: whoever prints JSON does so recursively.
int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = end_of_string(text, i);
      continue;
    }
    if (c == '[' || c == '{') most = std::max(most, ++depth);
    if (c == ']' || c == '}') --depth;
    ++i;
  }
  return most;
}

std::string begin_object(Json json, const std::string& unknown) {
  if (!unknown.empty()) {
    Json rest = Json::parse(unknown, nullptr, false);
    if (rest.is_object()) {
      rest.update(json);
      json = std::move(rest);
    }
  }
  std::string text = printed(json);
  text.pop_back();
  return text;
}

std::string line_of(const ProblemClass& problem, const Record& record) {
  return begin_object({{"op", problem.op},
                       {"dtype", problem.dtype},
                       {"d", problem.d},
                       {"dv", problem.dv},
                       {"log2_n", problem.log2_n},
                       {"log2_m", problem.log2_m},
                       {"plan", record.plan},
                       {"problem", record.problem},
                       {"seconds", record.seconds},
                       {"mad", record.mad},
                       {"estimate_seconds", record.estimate_seconds},
                       {"rounds", record.rounds},
                       {"rigor", name_of(record.rigor)},
                       {"date", record.date}},
                      record.unknown) +
         "}";
}

}  // namespace

Verdict parse(std::string_view text, Wisdom* wisdom) {
  if (text.size() > largest_text) {
    return {Reason::too_large,
            std::to_string(text.size()) + " bytes, more than " + std::to_string(largest_text)};
  }
  if (depth_of(text) > deepest) {
    return {Reason::too_deep, "nested deeper than " + std::to_string(deepest)};
  }
  WisdomReader reader(text.size());
  Json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.verdict().is_ok()) *wisdom = reader.take();
  return reader.verdict();
}

std::string quoted(std::string_view text) { return printed(Json(text)); }

std::string to_text(const Wisdom& wisdom) {
  std::string text = begin_object({{"format", format}, {"schema", schema}}, wisdom.unknown()) +
                     ",\"environments\":[";
  const char* between = "\n";
  for (const Wisdom::Known& known : wisdom.known()) {
    const Environment& e = known.environment;
    Json head = {{"library", e.library},
                 {"kernels", e.kernels},
                 {"isa", e.isa},
                 {"cpu", e.cpu},
                 {"caches", e.caches}};
    if (!known.rates.empty()) head["rates"] = rates_json(known.rates);
    text += between + begin_object(std::move(head), known.unknown);
    std::vector<std::string> lines;
    for (const auto& [problem, record] : known.records) lines.push_back(line_of(problem, record));
    std::sort(lines.begin(), lines.end());
    text += ",\"records\":[";
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "\n" : ",\n") + lines[i];
    text += "\n]}";
    between = ",\n";
  }
  return text + "]}\n";
}

}  // namespace ioattn::wisdom
