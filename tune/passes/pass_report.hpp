#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/schedule.hpp"
#include "instruments/io_counter.hpp"
#include "theory/bounds.hpp"
#include "tune/passes/overflow_report.hpp"
#include "tune/text/report_json.hpp"

// What a pass of either problem did: timed, counted, and held against its formula and its lower
// bound.
namespace ioattn::tune {

struct PassReport {
  Pass pass = Pass::backward;
  Schedule schedule = Schedule::row_stream;
  std::string level, plan_text;
  Isa isa = Isa::scalar;
  DType factors = DType::f32;  // what products multiply: bf16 by pairs, else no 16 bits
  index_t M = 0;
  double seconds = 0;  // median of the timed runs; of the counted run if there were none
  int runs = 0;        // of the pass in all, timed and counted
  double gflops = 0;
  IoCost count;
  index_t created_memory = 0;  // created words, where tiles count once
  std::vector<instruments::IoCounter::Phase> phases;
  index_t formula = 0;  // reads + writes, from theory
  theory::AlgorithmClass algorithms = theory::AlgorithmClass::F;
  theory::Bound bound;
  index_t bound_M = 0;  // for which the bound holds: M, or what the run keeps if that is more
  theory::Regime regime = theory::Regime::large_cache;
  index_t overflow = 0;  // words by which an algorithm as printed in the paper exceeds M
  OverflowReport overflows;

  double ratio() const { return static_cast<double>(count.words()) / bound.words; }
  bool exceeds_M() const { return bound_M > M; }
  std::string name() const { return std::string(name_of(pass)) + " " + name_of(schedule); }
};

// What the run is compared with: the bound that holds for M words, of `algorithms`. Throws RunError
// if it moved fewer words.
using BoundFor = std::function<theory::Bound(index_t M)>;
void set_bound(theory::AlgorithmClass algorithms, const BoundFor& bound, PassReport* report);
// Of a problem that moves nothing, or of which nothing is proved.
theory::Bound no_bound(const char* why);

Json io_json(const PassReport& report);
std::string io_text(const std::vector<PassReport>& reports);  // a table, and notes below it

}  // namespace ioattn::tune
