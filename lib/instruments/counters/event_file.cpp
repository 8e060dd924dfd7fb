#include "instruments/counters/event_file.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/parse.hpp"
#include "machine/text.hpp"

namespace ioattn::instruments {
namespace {

using machine::trimmed;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

bool parse_code(std::string_view text, std::uint64_t* code) {
  return text.starts_with("0x") && parse_number(text.substr(2), code, 16);
}

class Parser {
 public:
  explicit Parser(EventFile* file) : file_(*file) {}

  // "" or what is wrong with the line.
  std::string take(std::string_view line) {
    if (line.empty() || line.front() == '#') return "";
    if (line.front() == ' ' || line.front() == '\t') return prose(trimmed(line));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return "not \"key: value\"";
    const std::string_view key = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (value.empty()) return "no value";
    if (key == "cpu") return once(&file_.cpu, value);
    if (key == "pmu") return once(&file_.pmu, value);
    if (key == "match") return match(value);
    if (key == "event") return event(value);
    if (key == "code") return code(value);
    if (key == "kernel") return kernel(value);
    if (key == "libpfm") return libpfm(value);
    if (key == "quantity") return quantity(value);
    if (key == "formula") return formula(value);
    if (key == "generic") return generic(value);
    return "unknown key";
  }

  std::string finish() {
    if (file_.cpu.empty()) return "no \"cpu:\"";
    if (file_.quantities.empty()) return "no \"quantity:\"";
    for (Event& event : file_.events) set_pmu(file_, &event);
    return finish_event();
  }

 private:
  enum class Block : std::uint8_t { head, event, quantity, generic };

  static std::string once(std::string* field, std::string_view value) {
    if (!field->empty()) return "said twice";
    *field = value;
    return "";
  }

  std::string prose(std::string_view text) {
    std::string* to = nullptr;
    if (block_ == Block::event) to = &file_.events.back().text;
    if (block_ == Block::quantity) to = &file_.quantities.back().text;
    if (block_ == Block::generic) to = &file_.generic.back().text;
    if (to == nullptr || text.empty()) return "";
    if (!to->empty()) *to += ' ';
    *to += text;
    return "";
  }

  std::string match(std::string_view value) {
    if (value == "any") return "";
    machine::CpuPattern pattern;
    if (!machine::parse_cpu_pattern(value, &pattern)) return "not \"VENDOR FAMILY MODEL...\"";
    file_.matches.push_back(pattern);
    return "";
  }

  std::string finish_event() {
    const bool was_event = block_ == Block::event;
    return was_event && !has_code_ ? "event " + file_.events.back().name + " has no code" : "";
  }

  std::string event(std::string_view value) {
    if (std::string wrong = finish_event(); !wrong.empty()) return wrong;
    if (find_event(value) != file_.events.size()) return "there is such an event already";
    file_.events.push_back({std::string(value), {}, ""});
    file_.libpfm.emplace_back();
    block_ = Block::event;
    has_code_ = false;
    return "";
  }

  std::string give_code(const EventId& id) {
    if (block_ != Block::event || has_code_) return "belongs once to an event";
    file_.events.back().id = id;
    has_code_ = true;
    return "";
  }

  std::string code(std::string_view value) {
    EventId id = {PERF_TYPE_RAW, 0};
    return parse_code(value, &id.config) ? give_code(id) : "not a hexadecimal code";
  }

  std::string kernel(std::string_view value) {
    EventId id;
    return find_kernel_event(value, &id) ? give_code(id) : "not an event of the kernel";
  }

  std::string libpfm(std::string_view value) {
    return block_ == Block::event ? once(&file_.libpfm.back(), value) : "belongs to an event";
  }

  std::string quantity(std::string_view value) {
    if (std::string wrong = finish_event(); !wrong.empty()) return wrong;
    const std::vector<std::string_view> words = words_of(value);
    Quantity quantity;
    if (words.size() != 2 || words[0].size() != 2 || words[0][0] != 'L' || words[0][1] < '1' ||
        words[0][1] > '3' || (words[1] != "fills" && words[1] != "write-backs")) {
      return "not \"L1 fills\" or \"L2 write-backs\"";
    }
    quantity.level = words[0][1] - '0';
    quantity.kind = words[1] == "fills" ? CacheTraffic::fills : CacheTraffic::write_backs;
    if (file_.find(quantity.level, quantity.kind) != nullptr) return "there is such a quantity";
    file_.quantities.push_back(quantity);
    block_ = Block::quantity;
    return "";
  }

  // NAME { (+|-) NAME }
  std::string formula(std::string_view value) {
    if (block_ != Block::quantity || !file_.quantities.back().formula.empty()) {
      return "belongs once to a quantity";
    }
    int sign = 1;
    bool is_name = true;
    for (const std::string_view word : words_of(value)) {
      if (is_name) {
        const std::size_t found = find_event(word);
        if (found == file_.events.size()) return "no event above is " + std::string(word);
        file_.quantities.back().formula.push_back({sign, found});
      } else if (word == "+" || word == "-") {
        sign = word == "+" ? 1 : -1;
      } else {
        return "+ or - expected";
      }
      is_name = !is_name;
    }
    return is_name ? "ends in a sign" : "";
  }

  std::string generic(std::string_view value) {
    if (std::string wrong = finish_event(); !wrong.empty()) return wrong;
    EventId id;
    if (!find_kernel_event(value, &id) || !is_generic(id)) return "not a generic event";
    file_.generic.push_back({std::string(value), id, ""});
    block_ = Block::generic;
    return "";
  }

  std::size_t find_event(std::string_view name) const {
    const auto found = std::find_if(file_.events.begin(), file_.events.end(),
                                    [&](const Event& known) { return known.name == name; });
    return static_cast<std::size_t>(found - file_.events.begin());
  }

  EventFile& file_;
  Block block_ = Block::head;
  bool has_code_ = false;
};

}  // namespace

const char* name_of(CacheTraffic kind) {
  return kind == CacheTraffic::fills ? "fills" : "write-backs";
}

std::string Quantity::name() const { return "L" + std::to_string(level) + " " + name_of(kind); }

bool EventFile::is_for(const machine::CpuId& id) const {
  return matches.empty() ||
         std::any_of(matches.begin(), matches.end(), [&](const machine::CpuPattern& pattern) {
           return machine::matches(id, pattern);
         });
}

const Quantity* EventFile::find(int level, CacheTraffic kind) const {
  for (const Quantity& quantity : quantities) {
    if (quantity.level == level && quantity.kind == kind) return &quantity;
  }
  return nullptr;
}

std::string EventFile::formula_text(const Quantity& quantity) const {
  std::string text;
  for (const Term& term : quantity.formula) {
    if (!text.empty() || term.sign < 0) text += term.sign < 0 ? " - " : " + ";
    text += events[term.event].name;
  }
  return text;
}

Status parse_event_file(std::string_view text, const std::string& where, EventFile* file) {
  EventFile parsed;
  Parser parser(&parsed);
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const std::string wrong = parser.take(line); !wrong.empty()) {
      return Status::error(StatusCode::invalid_argument, "%.80s:%d: %.60s (%.80s)", where.c_str(),
                           number, wrong.c_str(), std::string(line).c_str());
    }
  }
  if (const std::string wrong = parser.finish(); !wrong.empty()) {
    return Status::error(StatusCode::invalid_argument, "%.80s: %.100s", where.c_str(),
                         wrong.c_str());
  }
  *file = std::move(parsed);
  return Status::ok();
}

Status read_event_file(const std::string& path, EventFile* file) {
  std::ifstream stream(path);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    return Status::error(StatusCode::invalid_argument, "%.150s: cannot be read", path.c_str());
  }
  return parse_event_file(text.str(), path, file);
}

const EventFile& builtin_events_for(const machine::CpuId& cpu) {
  static const std::vector<EventFile> files = [] {
    std::vector<EventFile> parsed;
    for (const NamedText& text : builtin_event_texts()) {
      EventFile file;
      // A test parses each, so none is left out.
      if (parse_event_file(text.text, std::string(text.name), &file).is_ok()) {
        parsed.push_back(std::move(file));
      }
    }
    return parsed;
  }();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const EventFile& file) { return file.is_for(cpu); });
  return found == files.end() ? files.back() : *found;
}

void set_pmu(const EventFile& file, Event* event) {
  if (event->id.type != PERF_TYPE_SOFTWARE) event->pmu = file.pmu;
}

void set_pmu_type(const std::string& sysfs_root, EventFile* file) {
  if (file->pmu.empty()) return;
  const auto line =
      machine::first_line(sysfs_root + "/bus/event_source/devices/" + file->pmu + "/type");
  if (!line) return;
  const auto type = machine::parse_integer(*line);
  if (!type || *type > UINT32_MAX) return;
  for (Event& event : file->events) {
    if (event.id.type == PERF_TYPE_RAW) event.id.type = static_cast<std::uint32_t>(*type);
  }
}

}  // namespace ioattn::instruments
