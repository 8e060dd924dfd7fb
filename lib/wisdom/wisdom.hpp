#pragma once

#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/types.hpp"
#include "wisdom/rates.hpp"
#include "wisdom/verdict.hpp"

// What tuning has learned, as a value. Threads, batch, heads and SDPA's masks are no part of any
// key: the blocks of a plan fix the order of sums, and results are the same for any number of
// threads and at any place in a batch. How threads share work is counted when it starts, so there
// is no grid of threads to tune.
namespace ioattn::wisdom {

// How much time was, or may be, taken.
enum class Rigor : std::uint8_t { estimate, measure, patient, wisdom_only };
const char* name_of(Rigor rigor);
bool parse_rigor(std::string_view name, Rigor* rigor);

// What a measurement depends on beside the problem.
struct Environment {
  std::string library;  // version
  std::string kernels;  // hash of what kernels and schedules are made of
  std::string isa;      // that calls use; a plan may name another
  std::string cpu;      // vendor, family, model, stepping, name
  std::string caches;   // sizes, ways and shares, as the planner takes them

  auto operator<=>(const Environment&) const = default;
};
// Fine if `other` is `here`; else the first thing that differs.
Verdict compare(const Environment& other, const Environment& here);

// Problems that take one plan. Names are text, so that records of types and gradients that this
// version does not know are kept.
struct ProblemClass {
  std::string op;     // "forward", "dQ+dK+dV", "layer:dX,tied"
  std::string dtype;  // "f32"
  index_t d = 0, dv = 0;
  int log2_n = 0, log2_m = 0;  // rounded down

  bool operator==(const ProblemClass&) const = default;
};
std::string to_text(const ProblemClass& problem);
int log2_of(index_t size);  // rounded down; 0 of sizes below 1

struct HashOfClass {
  std::size_t operator()(const ProblemClass& problem) const;
};

struct Record {
  std::string plan;              // its text form
  std::string problem;           // text form of what was timed
  double seconds = 0, mad = 0;   // median, and median absolute deviation from it
  double estimate_seconds = 0;   // median of the plan that needs no timing
  index_t rounds = 0;            // times that the plan ran
  Rigor rigor = Rigor::measure;  // or patient
  std::string date;              // UTC: "2026-01-31T12:00:00Z"
  std::string unknown;           // JSON object of fields of later versions; "": none

  bool operator==(const Record&) const = default;
};
// Whether `a` replaces `b`: more rigor, then later.
bool replaces(const Record& a, const Record& b);

using Records = std::unordered_map<ProblemClass, Record, HashOfClass>;

// Unless those that are there are later.
void keep_later(const std::string& dtype, const Rates& rates, RatesByType* all);

class Wisdom {
 public:
  struct Known {
    Records records;
    RatesByType rates;
    std::string unknown;  // as Record::unknown
  };

  // nullptr if nothing is known of it.
  const Records* records_of(const Environment& environment) const;
  const Rates* rates_of(const Environment& environment, const std::string& dtype) const;
  using ByEnvironment = std::map<Environment, Known>;  // a file may have a hundred thousand
  const ByEnvironment& known() const { return known_; }
  index_t size() const;  // records

  // Whether the record was taken: what is known may be better.
  bool keep(const Environment& environment, const ProblemClass& problem, const Record& record);
  // In place of what is known, which is of no use here.
  void replace(const Environment& environment, const ProblemClass& problem, const Record& record);
  void keep_rates(const Environment& environment, const std::string& dtype, const Rates& rates);
  void merge(Wisdom other);
  void forget(const Environment& environment);

  // Of the document; what is known of an environment, from now on if nothing was.
  const std::string& unknown() const { return unknown_; }
  void set_unknown(std::string json) { unknown_ = std::move(json); }
  Known* known_of(const Environment& environment) { return &known_[environment]; }

 private:
  ByEnvironment known_;
  std::string unknown_;
};

}  // namespace ioattn::wisdom
