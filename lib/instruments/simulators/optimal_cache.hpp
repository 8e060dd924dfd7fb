#pragma once

#include "instruments/simulators/trace_buffer.hpp"

namespace ioattn::instruments {

// When the line of each access is touched next: access i at next[i], `never_again` if it is not.
inline constexpr std::uint32_t never_again = ~std::uint32_t{0};
std::vector<std::uint32_t> next_uses(const TraceBuffer& trace);

// A fully associative cache of so many lines that evicts the line that is touched again last
// (Belady 1966): no cache of its size has fewer fills. Of lines that are never touched again a
// clean one goes first; it does not count write-backs that another optimal choice would save.
LineTraffic optimal_traffic(const TraceBuffer& trace, const std::vector<std::uint32_t>& next,
                            std::uint64_t capacity);

}  // namespace ioattn::instruments
