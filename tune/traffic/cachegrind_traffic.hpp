#pragma once

#include <array>
#include <string>

#include "instruments/cachegrind.hpp"
#include "tune/traffic/traffic_report.hpp"

namespace ioattn::tune {

// What Cachegrind counted of one run of a pass on one thread that began with caches which held none
// of it: fills for data, of L1 and of an L2 behind it. It knows of no write-backs.
struct CachegrindTraffic {
  struct Level {
    int level = 0;
    instruments::CachegrindCache cache;
    std::string rounded;  // from what, and "" if it is as the machine tells
    double lines = 0, words = 0;
  };
  std::string isa, reason;  // why there are no numbers; "" if there are
  std::array<Level, 2> levels;
};

// Valgrind has no AVX-512: unless IOATTN_ISA names an instruction set, it is AVX2 from now on where
// the CPU has that.
void choose_isa_of_valgrind();

// Runs the plan of this text in children of this program. What goes wrong there is a reason.
CachegrindTraffic watch(const TrafficCase& problem, const std::string& plan);

TrafficLine line_of(const CachegrindTraffic& watched, int level);
std::string cachegrind_text(const CachegrindTraffic& watched, const TrafficPlan& plan);
Json cachegrind_json(const CachegrindTraffic& watched);

}  // namespace ioattn::tune
