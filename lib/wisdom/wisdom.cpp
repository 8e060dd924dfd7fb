#include "wisdom/wisdom.hpp"

#include <bit>
#include <functional>
#include <utility>

#include "base/parse.hpp"

namespace ioattn::wisdom {

const char* name_of(Rigor rigor) {
  switch (rigor) {
    case Rigor::estimate: return "estimate";
    case Rigor::measure: return "measure";
    case Rigor::patient: return "patient";
    case Rigor::wisdom_only: return "wisdom_only";
  }
  return "unknown";
}

bool parse_rigor(std::string_view name, Rigor* rigor) {
  return parse_name(name, {Rigor::estimate, Rigor::measure, Rigor::patient, Rigor::wisdom_only},
                    rigor);
}

Verdict compare(const Environment& other, const Environment& here) {
  struct Field {
    Reason reason;
    const char* what;
    std::string Environment::*text;
  };
  static constexpr Field fields[] = {{Reason::library, "version", &Environment::library},
                                     {Reason::kernels, "kernels", &Environment::kernels},
                                     {Reason::isa, "instruction set", &Environment::isa},
                                     {Reason::cpu, "CPU", &Environment::cpu},
                                     {Reason::caches, "caches", &Environment::caches}};
  for (const Field& field : fields) {
    const std::string &of = other.*field.text, &is = here.*field.text;
    if (of == is) continue;
    std::string message = std::string("its ") + field.what + ": ";
    message.append(of).append("; here: ").append(is);
    return {field.reason, message};
  }
  return {};
}

std::string to_text(const ProblemClass& problem) {
  return problem.op + " " + problem.dtype + " d=" + std::to_string(problem.d) +
         " dv=" + std::to_string(problem.dv) + " n=2^" + std::to_string(problem.log2_n) + " m=2^" +
         std::to_string(problem.log2_m);
}

int log2_of(index_t size) {
  return size < 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
}

std::size_t HashOfClass::operator()(const ProblemClass& problem) const {
  std::size_t hash = 0;
  const auto add = [&](std::size_t value) {
    hash = (hash ^ value) * std::size_t{0x9e3779b97f4a7c15};
    hash ^= hash >> 29;
  };
  add(std::hash<std::string>()(problem.op));
  add(std::hash<std::string>()(problem.dtype));
  add(static_cast<std::size_t>(problem.d));
  add(static_cast<std::size_t>(problem.dv));
  add(static_cast<std::size_t>(problem.log2_n) << 8 | static_cast<std::size_t>(problem.log2_m));
  return hash;
}

bool replaces(const Record& a, const Record& b) {
  return a.rigor != b.rigor ? a.rigor > b.rigor : a.date > b.date;
}

void keep_later(const std::string& dtype, const Rates& rates, RatesByType* all) {
  const auto [place, is_new] = all->try_emplace(dtype, rates);
  if (!is_new && rates.date >= place->second.date) place->second = rates;
}

const Records* Wisdom::records_of(const Environment& environment) const {
  const auto known = known_.find(environment);
  return known == known_.end() ? nullptr : &known->second.records;
}

const Rates* Wisdom::rates_of(const Environment& environment, const std::string& dtype) const {
  const auto known = known_.find(environment);
  if (known == known_.end()) return nullptr;
  const auto place = known->second.rates.find(dtype);
  return place == known->second.rates.end() ? nullptr : &place->second;
}

index_t Wisdom::size() const {
  index_t count = 0;
  for (const auto& [environment, known] : known_)
    count += static_cast<index_t>(known.records.size());
  return count;
}

bool Wisdom::keep(const Environment& environment, const ProblemClass& problem,
                  const Record& record) {
  Records& records = known_of(environment)->records;
  const auto [place, is_new] = records.try_emplace(problem, record);
  if (is_new) return true;
  if (!replaces(record, place->second)) return false;
  place->second = record;
  return true;
}

void Wisdom::replace(const Environment& environment, const ProblemClass& problem,
                     const Record& record) {
  known_of(environment)->records.insert_or_assign(problem, record);
}

void Wisdom::keep_rates(const Environment& environment, const std::string& dtype,
                        const Rates& rates) {
  keep_later(dtype, rates, &known_of(environment)->rates);
}

void Wisdom::merge(Wisdom other) {
  for (auto& [environment, known] : other.known_) {
    Known* own = known_of(environment);
    if (own->unknown.empty()) own->unknown = std::move(known.unknown);
    if (own->records.empty()) own->records.swap(known.records);
    own->records.merge(known.records);  // which leaves those that are there already
    for (auto& [problem, record] : known.records) {
      Record& there = own->records.at(problem);
      if (replaces(record, there)) there = std::move(record);
    }
    for (const auto& [dtype, rates] : known.rates) keep_later(dtype, rates, &own->rates);
  }
  if (unknown_.empty()) unknown_ = std::move(other.unknown_);
}

void Wisdom::forget(const Environment& environment) { known_.erase(environment); }

}  // namespace ioattn::wisdom
