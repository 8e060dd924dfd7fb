// Rings of pointers: every line once, and no pattern.

#include "search/pointer_chase.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace ioattn_test {
namespace {

using namespace ioattn;
using search::PointerRing;

TEST(PointerRing, VisitsEveryLineOnce) {
  for (const index_t lines : {1, 2, 63, 64, 65, 1000, 4096}) {
    struct alignas(PointerRing::line_bytes) Line {
      Line* next = nullptr;
    };
    static_assert(sizeof(Line) == PointerRing::line_bytes);
    std::vector<Line> memory(static_cast<std::size_t>(lines) + 1);
    PointerRing ring(memory.data(), lines * PointerRing::line_bytes);
    EXPECT_EQ(ring.length(), lines);
    std::vector<int> visits(memory.size());
    std::map<std::ptrdiff_t, int> strides;
    index_t pages = 0;
    const Line* at = memory.data();
    for (index_t i = 0; i < lines; ++i) {
      ++visits[static_cast<std::size_t>(at - memory.data())];
      ASSERT_NE(at->next, nullptr);
      const std::ptrdiff_t from = at - memory.data(), to = at->next - memory.data();
      ++strides[to - from];
      pages += from / 64 != to / 64 ? 1 : 0;
      at = at->next;
    }
    EXPECT_EQ(at, memory.data());
    EXPECT_EQ(visits.back(), 0) << "beyond the end";
    visits.pop_back();
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
    if (lines < 1000) continue;
    // Once into each page, and no stride more often than others.
    EXPECT_EQ(pages, ceil_div(lines, 64));
    for (const auto& [stride, times] : strides) EXPECT_LT(times, lines / 20) << stride;
    ring.chase(lines);
  }
}

}  // namespace
}  // namespace ioattn_test
