#include "wisdom/text_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "wisdom/rates_text.hpp"
#include "wisdom/text.hpp"

namespace ioattn::wisdom {
namespace {

constexpr index_t longest_name = 64, longest_line = 1024, largest = index_t{1} << 40;

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string rest(const KeptValue& unknown) {
  return unknown.object().empty() ? std::string() : printed(unknown.object());
}

}  // namespace

std::string printed(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json take(Json* object, const std::string& name) {
  const auto place = object->find(name);
  if (place == object->end()) return nullptr;
  Json value = std::move(*place);
  object->erase(place);
  return value;
}

bool is_name(const std::string& text) {
  return !text.empty() && static_cast<index_t>(text.size()) <= longest_name && is_printable(text);
}

Json* KeptValue::add(Json value) {
  Json& parent = open_.empty() ? object_ : *open_.back();
  if (parent.is_array()) {
    parent.push_back(std::move(value));
    return &parent.back();
  }
  return &(parent[key_] = std::move(value));
}

// A record has some 300 bytes: there are hardly more of them than that.
WisdomReader::WisdomReader(std::size_t text_size) : records_expected_(text_size / 300) {
  const auto text = [](const char* name, std::string* value, index_t most) {
    return Slot{name, value, nullptr, nullptr, most, 1};
  };
  const auto integer = [](const char* name, index_t* value, index_t least, index_t most) {
    return Slot{name, nullptr, value, nullptr, most, least};
  };
  const auto seconds = [](const char* name, double* value) {
    return Slot{name, nullptr, nullptr, value, 0, 0};
  };
  const auto describe = [&](std::size_t at, const char* what, std::string_view list, Reason reason,
                            std::vector<Slot> slots) {
    levels_[at].what = what;
    levels_[at].list = list;
    levels_[at].reason = reason;
    levels_[at].slots = std::move(slots);
  };
  describe(0, "wisdom", "environments", Reason::schema,
           {text("format", &format_, longest_name), integer("schema", &schema_, 1, largest)});
  Environment& e = environment_;
  describe(1, "environment", "records", Reason::record,
           {text("library", &e.library, longest_name), text("kernels", &e.kernels, longest_name),
            text("isa", &e.isa, longest_name), text("cpu", &e.cpu, longest_line),
            text("caches", &e.caches, longest_line)});
  describe(
      2, "record", "", Reason::record,
      {integer("d", &problem_.d, 0, largest), text("date", &record_.date, longest_name),
       text("dtype", &problem_.dtype, longest_name), integer("dv", &problem_.dv, 0, largest),
       seconds("estimate_seconds", &record_.estimate_seconds), integer("log2_m", &log2_m_, 0, 62),
       integer("log2_n", &log2_n_, 0, 62), seconds("mad", &record_.mad),
       text("op", &problem_.op, longest_name), text("plan", &record_.plan, longest_line),
       text("problem", &record_.problem, longest_line), text("rigor", &rigor_, longest_name),
       integer("rounds", &record_.rounds, 1, largest), seconds("seconds", &record_.seconds)});
}

bool WisdomReader::refuse(const std::string& what) {
  if (!verdict_.is_ok()) return false;
  std::string where;
  for (int i = 0; i <= depth_; ++i) {
    const Level& of = levels_[static_cast<std::size_t>(i)];
    where += (i == 0 ? "" : ", ") + std::string(of.what);
    if (i > 0) where += " " + std::to_string(of.count);
  }
  verdict_ = {depth_ < 0 ? Reason::schema : level().reason,
              (where.empty() ? "" : where + ": ") + what};
  return false;
}

bool WisdomReader::refuse_member(const Slot& slot) {
  const std::string name = "\"" + std::string(slot.name) + "\" is not ";
  if (slot.text != nullptr) {
    return refuse(name + "a text of 1 to " + std::to_string(slot.most) + " printable characters");
  }
  if (slot.seconds != nullptr) return refuse(name + "a time in seconds");
  return refuse(name + "an integer from " + std::to_string(slot.least) + " to " +
                std::to_string(slot.most));
}

WisdomReader::Slot* WisdomReader::find_slot(std::string_view name) {
  Level& of = level();
  const std::size_t count = of.slots.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = of.next + k < count ? of.next + k : of.next + k - count;
    if (name != of.slots[i].name) continue;
    of.seen |= std::uint32_t{1} << i;
    of.next = i + 1;
    return &of.slots[i];
  }
  return nullptr;
}

bool WisdomReader::is_list_of_key() const {
  const std::string_view list = levels_[static_cast<std::size_t>(depth_)].list;
  return slot_ == nullptr && !list.empty() && key_ == list;
}

bool WisdomReader::value(const Json& json) {
  if (depth_ < 0) return refuse("no object");
  if (level().unknown.is_open()) return level().unknown.add(json) != nullptr;
  if (level().in_list) return refuse("a member of its list is no object");
  if (is_list_of_key()) return refuse("\"" + key_ + "\" is not a list");
  const Slot* slot = slot_;
  if (slot == nullptr) {
    level().unknown.key(key_);
    return level().unknown.add(json) != nullptr;
  }
  if (slot->text != nullptr) return refuse_member(*slot);
  if (slot->seconds != nullptr) {
    *slot->seconds = json.is_number() ? json.get<double>() : -1;
    return (*slot->seconds >= 0 && std::isfinite(*slot->seconds)) || refuse_member(*slot);
  }
  // An unsigned number that is none of these is a negative one here.
  if (!json.is_number_integer()) return refuse_member(*slot);
  *slot->integer = *json.get_ptr<const index_t*>();
  return (*slot->integer >= slot->least && *slot->integer <= slot->most) || refuse_member(*slot);
}

bool WisdomReader::string(string_t& text) {
  if (depth_ < 0 || level().unknown.is_open() || level().in_list) return value(text);
  const Slot* slot = slot_;
  if (slot == nullptr || slot->text == nullptr) return value(text);
  const bool good = !text.empty() && static_cast<index_t>(text.size()) <= slot->most;
  if (!good || !is_printable(text)) return refuse_member(*slot);
  slot->text->assign(text);  // the parser keeps its buffer, which the next text needs
  return true;
}

bool WisdomReader::start_object(std::size_t) {
  if (depth_ >= 0 && level().unknown.is_open()) {
    level().unknown.begin(Json::object());
    return true;
  }
  if (depth_ < 0 || level().in_list) {
    ++depth_;
    level().seen = 0;
    level().unknown.clear();
    if (depth_ < 2) levels_[static_cast<std::size_t>(depth_) + 1].count = 0;
    return true;
  }
  if (is_list_of_key()) return refuse("\"" + key_ + "\" is not a list");
  if (slot_ != nullptr) return refuse_member(*slot_);
  level().unknown.key(key_);
  level().unknown.begin(Json::object());
  return true;
}

bool WisdomReader::key(string_t& name) {
  if (level().unknown.is_open()) {
    level().unknown.key(name);
  } else {
    slot_ = find_slot(name);
    if (slot_ == nullptr) key_.assign(name);
  }
  return true;
}

bool WisdomReader::start_array(std::size_t) {
  if (depth_ < 0) return refuse("no object");
  if (!level().unknown.is_open()) {
    if (level().in_list) return refuse("a member of its list is no object");
    if (is_list_of_key()) {
      level().seen |= std::uint32_t{1} << level().slots.size();
      if (depth_ == 1) records_.reserve(std::exchange(records_expected_, 0));
      return level().in_list = true;
    }
    if (slot_ != nullptr) return refuse_member(*slot_);
    level().unknown.key(key_);
  }
  level().unknown.begin(Json::array());
  return true;
}

bool WisdomReader::end_array() {
  if (level().unknown.is_open()) {
    level().unknown.end();
  } else {
    level().in_list = false;
  }
  return true;
}

bool WisdomReader::end_object() {
  Level& of = level();
  if (of.unknown.is_open()) {
    of.unknown.end();
    return true;
  }
  const auto is_missing = [&](std::string_view name) {
    return refuse("\"" + std::string(name) + "\" is missing");
  };
  for (std::size_t i = 0; i < of.slots.size(); ++i) {
    if ((of.seen >> i & 1) == 0) return is_missing(of.slots[i].name);
  }
  if (!of.list.empty() && (of.seen >> of.slots.size() & 1) == 0) return is_missing(of.list);
  if (depth_ == 0) {
    if (format_ != format) return refuse(std::string("\"format\" is not \"") + format + "\"");
    if (schema_ != schema) {
      return refuse("\"schema\" is " + std::to_string(schema_) + ", not " + std::to_string(schema));
    }
    wisdom_.set_unknown(rest(of.unknown));
  } else if (depth_ == 1) {
    if (!finish_environment()) return false;
  } else {
    if (!parse_rigor(rigor_, &record_.rigor) ||
        (record_.rigor != Rigor::measure && record_.rigor != Rigor::patient)) {
      return refuse("\"rigor\" is neither \"measure\" nor \"patient\"");
    }
    finish_record();
  }
  ++of.count;
  --depth_;
  return true;
}

bool WisdomReader::finish_environment() {
  Wisdom::Known* known = wisdom_.known_of(environment_);
  const Json rates = level().unknown.take("rates");
  if (!rates.is_null()) {
    const std::string wrong = read_rates(rates, &known->rates);
    if (!wrong.empty()) return refuse(wrong);
  }
  known->unknown = rest(level().unknown);
  if (known->records.empty()) {
    known->records = std::move(records_);
  } else {
    for (const auto& [problem, record] : records_) wisdom_.keep(environment_, problem, record);
  }
  records_ = {};
  return true;
}

void WisdomReader::finish_record() {
  problem_.log2_n = static_cast<int>(log2_n_);
  problem_.log2_m = static_cast<int>(log2_m_);
  record_.unknown = rest(level().unknown);
  const auto [place, is_new] = records_.try_emplace(std::move(problem_), std::move(record_));
  if (!is_new && replaces(record_, place->second)) place->second = std::move(record_);
}

bool WisdomReader::parse_error(std::size_t byte, const std::string&,
                               const nlohmann::detail::exception&) {
  verdict_ = {Reason::syntax, "not JSON at byte " + std::to_string(byte)};
  return false;
}

}  // namespace ioattn::wisdom
