#pragma once

namespace ioattn::bench {

// Register what ioattn-bench runs. False, and a message, if a problem's text is wrong.
bool add_layer_benchmarks();
void add_sdpa_benchmarks();
void add_simulator_benchmarks();
void add_wisdom_benchmarks();

}  // namespace ioattn::bench
