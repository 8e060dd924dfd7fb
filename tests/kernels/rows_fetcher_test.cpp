// What is fetched beside a product, in which order and how evenly: a prefetch itself leaves no
// trace.

#include "kernels/generic/rows_fetcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ioattn_test {
namespace {

using namespace ioattn::kernels;
using ioattn::index_t;

constexpr index_t line = 64;

// Nothing is read there.
const char* const memory = reinterpret_cast<const char*>(std::uintptr_t(1) << 20);

using Lines = std::vector<std::uintptr_t>;

Lines lines_of(const RowsAhead& rows) {
  Lines lines;
  for (index_t i = 0; i < rows.rows; ++i)
    for (index_t byte = 0; byte < rows.row_bytes; byte += line)
      lines.push_back(reinterpret_cast<std::uintptr_t>(rows.first) +
                      std::uintptr_t(i * rows.stride_bytes + byte));
  return lines;
}

struct Fetched {
  Lines lines;
  std::size_t most_at_once = 0;

  void step(RowsFetcher* fetcher) {
    const std::size_t before = lines.size();
    fetcher->step(
        [&](const char* address) { lines.push_back(reinterpret_cast<std::uintptr_t>(address)); });
    most_at_once = std::max(most_at_once, lines.size() - before);
  }
};

TEST(RowsFetcher, FetchesEveryLineOnceInOrderAndEvenly) {
  for (const index_t row_bytes : {4, 64, 200, 256, 320, 512, 1024}) {
    for (const index_t gap : {0, 64, 3 * 512}) {
      for (const index_t count : {1, 7, 256}) {
        for (const index_t steps : {1, 50, 256, 1000, 20000}) {
          const index_t stride = (row_bytes + line - 1) / line * line + gap;
          const RowsAhead rows = {memory, count, row_bytes, stride};
          RowsFetcher fetcher(rows, steps);
          Fetched fetched;
          for (index_t k = 0; k < steps; ++k) fetched.step(&fetcher);
          const Lines expected = lines_of(rows);
          ASSERT_EQ(fetched.lines, expected) << row_bytes << " " << gap << " " << steps;
          // Pieces of four lines at most, and one more where steps are no multiple of pieces.
          const std::size_t even = expected.size() / std::size_t(steps);
          ASSERT_LE(fetched.most_at_once, even + 8) << row_bytes << " " << gap << " " << steps;
          for (int k = 0; k < 3; ++k) fetched.step(&fetcher);
          ASSERT_EQ(fetched.lines.size(), expected.size());
        }
      }
    }
  }
}

// From the next tile on.
TEST(RowsFetcher, FetchesWhatIsReadAfterThem) {
  const RowsAhead values = {memory + (1 << 18), 40, 128, 256};
  const RowsAhead keys = {memory, 30, 256, 512, &values};
  Lines expected = lines_of(keys);
  for (const std::uintptr_t each : lines_of(values)) expected.push_back(each);
  RowsFetcher fetcher(keys, 110);
  Fetched fetched;
  for (int k = 0; k < 120; ++k) {
    if (k % 10 == 0) fetcher.begin_tile();
    fetched.step(&fetcher);
  }
  EXPECT_EQ(fetched.lines, expected);
  EXPECT_LE(fetched.most_at_once, 4u);
}

TEST(RowsFetcher, FetchesNothingOfNothing) {
  const RowsAhead none, no_rows = {memory, 0, 64, 64}, no_columns = {memory, 9, 0, 64};
  for (const RowsAhead& rows : {none, no_rows, no_columns}) {
    RowsFetcher fetcher(rows, 10);
    Fetched fetched;
    for (int k = 0; k < 10; ++k) fetched.step(&fetcher);
    EXPECT_TRUE(fetched.lines.empty());
  }
}

}  // namespace
}  // namespace ioattn_test
