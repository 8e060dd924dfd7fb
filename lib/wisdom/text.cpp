#include "wisdom/text.hpp"

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <utility>

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

template <class Leaf>
std::string json(const Leaf& value) {
  return printed(Json(value));
}

// Of fields of later versions those that this one does not know.
std::string object(Fields fields, const std::string& unknown) {
  KeptFields kept;
  if (!unknown.empty() && Json::sax_parse(unknown, &kept)) fields.merge(kept.take());
  return printed(fields);
}

// To which members are added.
std::string begin_object(Fields fields, const std::string& unknown) {
  std::string text = object(std::move(fields), unknown);
  text.pop_back();
  return text;
}

std::string line_of(const ProblemClass& problem, const Record& record) {
  return object({{"op", json(problem.op)},
                 {"dtype", json(problem.dtype)},
                 {"d", json(problem.d)},
                 {"dv", json(problem.dv)},
                 {"log2_n", json(problem.log2_n)},
                 {"log2_m", json(problem.log2_m)},
                 {"plan", json(record.plan)},
                 {"problem", json(record.problem)},
                 {"seconds", json(record.seconds)},
                 {"mad", json(record.mad)},
                 {"estimate_seconds", json(record.estimate_seconds)},
                 {"rounds", json(record.rounds)},
                 {"rigor", json(name_of(record.rigor))},
                 {"date", json(record.date)}},
                record.unknown);
}

std::string list_of(const RatesByType& rates) {
  std::string list;
  for (const auto& [dtype, one] : rates) {
    list += (list.empty() ? "[" : ",") +
            object({{"dtype", json(dtype)},
                    {"multiply_adds_per_second", json(one.multiply_adds)},
                    {"seconds_per_word", json(one.word_seconds)},
                    {"seconds_per_inner_word", json(one.inner_word_seconds)},
                    {"threads", json(one.threads)},
                    {"date", json(one.date)}},
                   one.unknown);
  }
  return list + "]";
}

// Numbers are read by strtod(): rounded to nearest, with a point, whatever the caller has. The
// parser knows decimal points of other locales if they are a byte long, and not all are.
class NumbersOfJson {
 public:
  NumbersOfJson() : rounding_(std::fegetround()) {
    static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
    locale_ = uselocale(c);  // as it is, should there be none
    std::fesetround(FE_TONEAREST);
  }
  ~NumbersOfJson() {
    std::fesetround(rounding_);
    uselocale(locale_);
  }
  NumbersOfJson(const NumbersOfJson&) = delete;
  NumbersOfJson& operator=(const NumbersOfJson&) = delete;

 private:
  int rounding_;
  locale_t locale_;
};

}  // namespace

Verdict parse(std::string_view text, Wisdom* wisdom) {
  if (text.size() > largest_text) {
    return {Reason::too_large, "more than " + std::to_string(largest_text) + " bytes"};
  }
  // To the parser it would be the end.
  if (text.find('\0') != std::string_view::npos) {
    return {Reason::syntax, "a byte of it is 0"};
  }
  if (depth_of(text) > deepest) {
    return {Reason::too_deep, "nested deeper than " + std::to_string(deepest)};
  }
  const NumbersOfJson numbers;
  WisdomReader reader(text.size());
  Json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.verdict().is_ok()) *wisdom = reader.take();
  return reader.verdict();
}

std::string quoted(std::string_view text) { return printed(Json(text)); }

std::string to_text(const Wisdom& wisdom) {
  const NumbersOfJson numbers;  // among the fields that are kept
  std::string text =
      begin_object({{"format", json(format)}, {"schema", json(schema)}}, wisdom.unknown()) +
      ",\"environments\":[";
  const char* between = "\n";
  for (const auto& [e, known] : wisdom.known()) {
    Fields head = {{"library", json(e.library)},
                   {"kernels", json(e.kernels)},
                   {"isa", json(e.isa)},
                   {"cpu", json(e.cpu)},
                   {"caches", json(e.caches)}};
    if (!known.rates.empty()) head["rates"] = list_of(known.rates);
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
