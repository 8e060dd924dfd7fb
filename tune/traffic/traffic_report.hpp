#pragma once

#include <optional>
#include <string>
#include <vector>

#include "instruments/io_counter.hpp"
#include "machine/machine.hpp"
#include "tune/text/report_json.hpp"
#include "tune/traffic/traffic_case.hpp"

// What moved, by every way of telling, beside what theory says.
namespace ioattn::tune {

// One way of telling, in words of the problem's dtype.
struct TrafficLine {
  std::string name;    // "LRU", "OPT", "8 ways LRU", ...
  std::string head;    // of caches of several sizes: "by ways LRU"; "" = name
  std::string key;     // its name in JSON
  std::string reason;  // why there are no numbers; "" if there are
  double in = 0;
  std::optional<double> out = 0;  // nullopt: nobody counted what was written back

  bool is_available() const { return reason.empty(); }
  double moved() const { return in + out.value_or(0); }  // that is known
  const std::string& head_or_name() const { return head.empty() ? name : head; }
};

// A pass with the plan of one M.
struct Traffic {
  TrafficPlan plan;
  index_t capacity_bytes = 0;  // of the cache that is simulated
  int line_bytes = 0, ways = 0;
  IoCost count;
  index_t created_memory = 0;      // created words, where tiles count once
  index_t accesses = 0;            // of the trace
  std::vector<TrafficLine> lines;  // of all threads together
  // Each thread with caches of its own, where there are several; work goes to whoever is free, so
  // that what a thread has is another in every run.
  struct OfThread {
    index_t accesses = 0;
    std::vector<TrafficLine> lines;
  };
  std::vector<OfThread> threads;
  std::vector<double> lru;  // words moved by LRU caches of 1, 2, ... lines
};

struct TrafficReport {
  std::string problem;
  Pass pass = Pass::backward;
  DType dtype = DType::f32;
  std::vector<Traffic> levels;
  struct NoPlan {
    std::string level, objective, reason;
  };
  std::vector<NoPlan> too_small;  // levels whose M no plan fits in
  std::vector<Traffic> sweep;     // ascending M
};

// Each way of telling that is in some row of the sweep, as the first of these rows has it.
std::vector<TrafficLine> sweep_columns(const TrafficReport& report);
// The row's line of that key; null: it has none.
const TrafficLine* find_line(const Traffic& traffic, const std::string& key);

std::string to_text(const TrafficReport& report);
Json to_json(const TrafficReport& report);

// What a cache that keeps what the schedule keeps would move: the memory of created blocks is
// brought in when they are first written, and written back when they are dead.
double expected_in(const Traffic& traffic);
double expected_out(const Traffic& traffic);

}  // namespace ioattn::tune
