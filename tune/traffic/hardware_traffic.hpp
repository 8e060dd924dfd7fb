#pragma once

#include <optional>

#include "tune/traffic/counter_setup.hpp"
#include "tune/traffic/traffic_html.hpp"

namespace ioattn::tune {

// What the hardware counted of a pass, for the level whose plan ran.
struct HardwareTraffic {
  instruments::QuantityValue fills, write_backs;  // lines of one run
  std::vector<instruments::CounterValue> named;   // events beside the file's, of all runs
  int runs = 0;
  std::size_t threads = 0;  // that had counters
};

// Runs the pass as planned, once uncounted, then counted, each time with caches that hold none of
// it, until a tenth of a second has been counted.
HardwareTraffic count_hardware(int level, index_t capacity_bytes, TrafficCase* problem,
                               CounterSetup* setup);

// Beside what the schedule reads, writes and creates.
std::string hardware_text(const HardwareTraffic& hardware, const Traffic& traffic, DType dtype);
Json hardware_json(const HardwareTraffic& hardware, const Traffic& traffic, DType dtype);
// What was counted: fills and write-backs, or one of them, which its title says. None without.
std::optional<Marker> hardware_marker(const HardwareTraffic& hardware, const Traffic& traffic,
                                      DType dtype);

}  // namespace ioattn::tune
