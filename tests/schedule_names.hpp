#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

// The schedules of the layer problem by name, for tests that see nothing of lib. Each list is
// complete, in the order of the library's own: tests/base/names_test.cpp.
namespace ioattn_test {

inline constexpr const char* all_schedules[] = {
    "naive",    "paper_small",     "paper_large",  "row_stream", "stationary", "q_stored",
    "half_dim", "weight_resident", "score_stored", "resident",   "col_stream", "tile_fused"};
inline constexpr const char* forward_schedules[] = {"paper_small", "paper_large",  "row_stream",
                                                    "stationary",  "score_stored", "tile_fused"};
// Of dX.
inline constexpr const char* backward_schedules[] = {
    "naive",    "paper_small", "paper_large",     "row_stream", "stationary",
    "q_stored", "half_dim",    "weight_resident", "resident",   "tile_fused"};
// Those of dX that skip what a mask hides; the others refuse masks.
inline constexpr const char* masked_schedules[] = {"row_stream", "tile_fused"};
// Those of dX that compute O and LSE themselves.
inline constexpr const char* lse_schedules[] = {"naive", "paper_small", "resident"};

template <std::size_t count>
bool is_one_of(const char* const (&list)[count], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// "auto" has one, too.
inline bool has_forward_pass(std::string_view schedule) {
  return schedule == "auto" || is_one_of(forward_schedules, schedule);
}

template <std::size_t count>
std::vector<const char*> and_auto(const char* const (&list)[count]) {
  std::vector<const char*> names = {"auto"};
  names.insert(names.end(), std::begin(list), std::end(list));
  return names;
}

}  // namespace ioattn_test
