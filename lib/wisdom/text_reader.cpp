#include "wisdom/text_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "wisdom/text.hpp"

namespace ioattn::wisdom {
namespace {

constexpr index_t longest_name = 64, longest_line = 1024, largest = index_t{1} << 40;
constexpr index_t most_threads = 1 << 20;

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string rest(KeptFields* unknown) {
  const Fields fields = unknown->take();
  return fields.empty() ? std::string() : printed(fields);
}

}  // namespace

std::string printed(const Json& leaf) {
  return leaf.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string printed(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, json] : fields) {
    if (text.size() > 1) text += ',';
    text.append(printed(Json(name))).append(":").append(json);
  }
  return text + "}";
}

bool KeptFields::add(const std::string& json) {
  if (open_.empty()) return false;  // no object
  Container& parent = open_.back();
  if (parent.is_list) {
    parent.items.append(parent.items.empty() ? "" : ",").append(json);
  } else {
    parent.fields[parent.key] = json;
  }
  return true;
}

bool KeptFields::start_object(std::size_t) {
  open_.push_back({false, {}, {}, {}});
  return true;
}

bool KeptFields::key(string_t& name) {
  open_.back().key = name;
  return true;
}

bool KeptFields::end_object() {
  Fields ended = std::move(open_.back().fields);
  open_.pop_back();
  if (!open_.empty()) return add(printed(ended));
  fields_ = std::move(ended);
  return true;
}

bool KeptFields::start_array(std::size_t) {
  open_.push_back({true, {}, {}, {}});
  return true;
}

bool KeptFields::end_array() {
  const std::string ended = "[" + open_.back().items + "]";
  open_.pop_back();
  return add(ended);
}

// A record has some 300 bytes: there are hardly more of them than that.
WisdomReader::WisdomReader(std::size_t text_size) : records_expected_(text_size / 300) {
  const auto text = [](const char* name, std::string* value, index_t most) {
    return Slot{name, value, nullptr, nullptr, most, 1};
  };
  const auto integer = [](const char* name, index_t* value, index_t least, index_t most) {
    return Slot{name, nullptr, value, nullptr, most, least};
  };
  const auto real = [](const char* name, double* value) {
    return Slot{name, nullptr, nullptr, value, 0, 0};
  };
  document_.what = "wisdom";
  document_.finish = &WisdomReader::finish_document;
  document_.reason = Reason::schema;
  document_.slots = {text("format", &now_.format, longest_name),
                     integer("schema", &now_.schema, 1, largest)};
  document_.lists = {{"environments", &environment_, true}};

  Environment& e = now_.environment;
  environment_.what = "environment";
  environment_.parent = &document_;
  environment_.finish = &WisdomReader::finish_environment;
  environment_.slots = {text("library", &e.library, longest_name),
                        text("kernels", &e.kernels, longest_name),
                        text("isa", &e.isa, longest_name), text("cpu", &e.cpu, longest_line),
                        text("caches", &e.caches, longest_line)};
  environment_.lists = {{"records", &record_, true}, {"rates", &rates_, false}};

  ProblemClass& problem = now_.problem;
  Record& record = now_.record;
  record_.what = "record";
  record_.parent = &environment_;
  record_.finish = &WisdomReader::finish_record;
  record_.slots = {integer("d", &problem.d, 0, largest),
                   text("date", &record.date, longest_name),
                   text("dtype", &problem.dtype, longest_name),
                   integer("dv", &problem.dv, 0, largest),
                   real("estimate_seconds", &record.estimate_seconds),
                   integer("log2_m", &now_.log2_m, 0, 62),
                   integer("log2_n", &now_.log2_n, 0, 62),
                   real("mad", &record.mad),
                   text("op", &problem.op, longest_name),
                   text("plan", &record.plan, longest_line),
                   text("problem", &record.problem, longest_line),
                   text("rigor", &now_.rigor, longest_name),
                   integer("rounds", &record.rounds, 1, largest),
                   real("seconds", &record.seconds)};

  Rates& rates = now_.rates;
  rates_.what = "rates";
  rates_.parent = &environment_;
  rates_.finish = &WisdomReader::finish_rates;
  rates_.slots = {text("date", &rates.date, longest_name),
                  text("dtype", &now_.dtype_of_rates, longest_name),
                  real("multiply_adds_per_second", &rates.multiply_adds),
                  real("seconds_per_inner_word", &rates.inner_word_seconds),
                  real("seconds_per_word", &rates.word_seconds),
                  integer("threads", &rates.threads, 1, most_threads)};
}

bool WisdomReader::refuse(const std::string& what) {
  if (!verdict_.is_ok()) return false;
  std::string where;
  for (const Level* of = level_; of != nullptr; of = of->parent) {
    const std::string count = of->parent == nullptr ? "" : " " + std::to_string(of->count);
    where = of->what + count + (where.empty() ? "" : ", ") + where;
  }
  verdict_ = {level_ == nullptr ? Reason::schema : level_->reason,
              (where.empty() ? "" : where + ": ") + what};
  return false;
}

bool WisdomReader::refuse_member(const Slot& slot) {
  const std::string name = "\"" + std::string(slot.name) + "\" is not ";
  if (slot.text != nullptr) {
    return refuse(name + "a text of 1 to " + std::to_string(slot.most) + " printable characters");
  }
  if (slot.real != nullptr) return refuse(name + "a number of 0 or more");
  return refuse(name + "an integer from " + std::to_string(slot.least) + " to " +
                std::to_string(slot.most));
}

bool WisdomReader::refuse_list(const List& list) {
  return refuse("\"" + std::string(list.name) + "\" is not a list");
}

bool WisdomReader::refuse_item() {
  return refuse("a member of \"" + std::string(level_->in_list->name) + "\" is no object");
}

WisdomReader::Slot* WisdomReader::find_slot(std::string_view name) {
  const std::size_t count = level_->slots.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = level_->next + k < count ? level_->next + k : level_->next + k - count;
    if (name != level_->slots[i].name) continue;
    level_->seen |= std::uint32_t{1} << i;
    level_->next = i + 1;
    return &level_->slots[i];
  }
  return nullptr;
}

const WisdomReader::List* WisdomReader::list_of_key() const {
  if (slot_ != nullptr) return nullptr;
  for (const List& list : level_->lists)
    if (key_ == list.name) return &list;
  return nullptr;
}

bool WisdomReader::value(const Json& leaf) {
  if (level_ == nullptr) return refuse("no object");
  if (!keeps()) {
    if (level_->in_list != nullptr) return refuse_item();
    if (const List* list = list_of_key(); list != nullptr) return refuse_list(*list);
    if (slot_ != nullptr) return number(*slot_, leaf);
    level_->unknown.key(key_);
  }
  return level_->unknown.add(printed(leaf));
}

bool WisdomReader::number(const Slot& slot, const Json& leaf) {
  if (slot.text != nullptr) return refuse_member(slot);
  if (slot.real != nullptr) {
    *slot.real = leaf.is_number() ? leaf.get<double>() : -1;
    return (*slot.real >= 0 && std::isfinite(*slot.real)) || refuse_member(slot);
  }
  // An unsigned number that is none of these is a negative one here.
  if (!leaf.is_number_integer()) return refuse_member(slot);
  *slot.integer = *leaf.get_ptr<const index_t*>();
  return (*slot.integer >= slot.least && *slot.integer <= slot.most) || refuse_member(slot);
}

bool WisdomReader::string(string_t& text) {
  if (level_ == nullptr || keeps() || level_->in_list != nullptr) return value(text);
  const Slot* slot = slot_;
  if (slot == nullptr || slot->text == nullptr) return value(text);
  const bool good = !text.empty() && static_cast<index_t>(text.size()) <= slot->most;
  if (!good || !is_printable(text)) return refuse_member(*slot);
  slot->text->assign(text);  // the parser keeps its buffer, which the next text needs
  return true;
}

bool WisdomReader::start_object(std::size_t) {
  if (!keeps()) {
    if (level_ == nullptr || level_->in_list != nullptr) {
      level_ = level_ == nullptr ? &document_ : level_->in_list->of;
      level_->seen = 0;
      for (const List& list : level_->lists) list.of->count = 0;
      return level_->unknown.start_object({});
    }
    if (const List* list = list_of_key(); list != nullptr) return refuse_list(*list);
    if (slot_ != nullptr) return refuse_member(*slot_);
    level_->unknown.key(key_);
  }
  return level_->unknown.start_object({});
}

bool WisdomReader::key(string_t& name) {
  if (keeps()) return level_->unknown.key(name);
  slot_ = find_slot(name);
  if (slot_ == nullptr) key_.assign(name);
  return true;
}

bool WisdomReader::start_array(std::size_t) {
  if (level_ == nullptr) return refuse("no object");
  if (!keeps()) {
    if (level_->in_list != nullptr) return refuse_item();
    if (const List* list = list_of_key(); list != nullptr) {
      const auto at = static_cast<std::size_t>(list - level_->lists.data());
      level_->seen |= std::uint32_t{1} << (level_->slots.size() + at);
      if (list->of == &record_) now_.records.reserve(std::exchange(records_expected_, 0));
      level_->in_list = list;
      return true;
    }
    if (slot_ != nullptr) return refuse_member(*slot_);
    level_->unknown.key(key_);
  }
  return level_->unknown.start_array({});
}

bool WisdomReader::end_array() {
  if (keeps()) return level_->unknown.end_array();
  level_->in_list = nullptr;
  return true;
}

bool WisdomReader::end_object() {
  const bool was_nested = keeps();
  if (!level_->unknown.end_object()) return false;
  if (was_nested) return true;
  std::uint32_t unseen = ~level_->seen;
  const auto is_missing = [&](std::string_view name) {
    return refuse("\"" + std::string(name) + "\" is missing");
  };
  for (const Slot& slot : level_->slots) {
    if ((unseen & 1) != 0) return is_missing(slot.name);
    unseen >>= 1;
  }
  for (const List& list : level_->lists) {
    if (list.is_needed && (unseen & 1) != 0) return is_missing(list.name);
    unseen >>= 1;
  }
  if (!(this->*level_->finish)()) return false;
  ++level_->count;
  level_ = level_->parent;
  return true;
}

bool WisdomReader::finish_document() {
  if (now_.format != format) return refuse(std::string("\"format\" is not \"") + format + "\"");
  if (now_.schema != schema) {
    return refuse("\"schema\" is " + std::to_string(now_.schema) + ", not " +
                  std::to_string(schema));
  }
  wisdom_.set_unknown(rest(&document_.unknown));
  return true;
}

bool WisdomReader::finish_environment() {
  Wisdom::Known* known = wisdom_.known_of(now_.environment);
  known->unknown = rest(&environment_.unknown);
  for (const auto& [dtype, rates] : now_.rates_by_type) keep_later(dtype, rates, &known->rates);
  if (known->records.empty()) {
    known->records = std::move(now_.records);
  } else {
    for (const auto& [problem, record] : now_.records)
      wisdom_.keep(now_.environment, problem, record);
  }
  now_.records = {};
  now_.rates_by_type = {};
  return true;
}

bool WisdomReader::finish_record() {
  ProblemClass& problem = now_.problem;
  Record& record = now_.record;
  if (!parse_rigor(now_.rigor, &record.rigor) ||
      (record.rigor != Rigor::measure && record.rigor != Rigor::patient)) {
    return refuse("\"rigor\" is neither \"measure\" nor \"patient\"");
  }
  problem.log2_n = static_cast<int>(now_.log2_n);
  problem.log2_m = static_cast<int>(now_.log2_m);
  record.unknown = rest(&record_.unknown);
  const auto [place, is_new] = now_.records.try_emplace(std::move(problem), std::move(record));
  if (!is_new && replaces(record, place->second)) place->second = std::move(record);
  return true;
}

bool WisdomReader::finish_rates() {
  now_.rates.unknown = rest(&rates_.unknown);
  keep_later(now_.dtype_of_rates, now_.rates, &now_.rates_by_type);
  return true;
}

bool WisdomReader::parse_error(std::size_t byte, const std::string&,
                               const nlohmann::detail::exception&) {
  verdict_ = {Reason::syntax, "not JSON at byte " + std::to_string(byte)};
  return false;
}

}  // namespace ioattn::wisdom
