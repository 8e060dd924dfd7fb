#include "schedules/memory/workspace.hpp"
#include "status_ok.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace ioattn::schedules {
namespace {

constexpr index_t most = std::numeric_limits<index_t>::max();

TEST(WorkerMemory, IsAPlaceOfItsOwnPerWorker) {
  WorkspaceLayout layout;
  layout.add<char>(1);
  WorkerMemory workers;
  const Slot<char> first = workers.add<char>(1);
  const Slot<double> second = workers.add<double>(17);
  workers.add_to(&layout, 3);
  const index_t line = index_t(AlignedBuffer::alignment), each = line + round_up(17 * 8, line);
  EXPECT_EQ(layout.bytes(), line + 3 * each);
  WorkspaceMemory memory;
  ASSERT_OK(layout.allocate(nullptr, &memory));
  const char* begin = static_cast<char*>(memory.data());
  for (int worker = 0; worker < 3; ++worker) {
    void* local = workers.of(worker, memory.data());
    EXPECT_EQ(first.in(local)-begin, line + worker * each);
    EXPECT_EQ(reinterpret_cast<char*>(second.in(local)) - begin, line + worker * each + line);
  }
}

// Whatever is added behind it.
StatusCode allocation_of(WorkerMemory workers, int count) {
  WorkspaceLayout layout;
  workers.add_to(&layout, count);
  layout.add<char>(1);
  WorkspaceMemory memory;
  return layout.allocate(nullptr, &memory).code();
}

TEST(WorkerMemory, CarriesOverflowOn) {
  WorkerMemory too_long, too_many, of_too_many;
  too_long.add<double>(most / 4);  // wraps to a small number
  too_long.add<double>(1);
  EXPECT_EQ(allocation_of(too_long, 1), StatusCode::size_overflow);
  too_many.add<char>(most / 2);
  too_many.add<char>(most / 2);
  too_many.add<char>(most / 2);
  EXPECT_EQ(allocation_of(too_many, 1), StatusCode::size_overflow);
  of_too_many.add<char>(index_t(1) << 61);
  EXPECT_EQ(allocation_of(of_too_many, 8), StatusCode::size_overflow);
}

}  // namespace
}  // namespace ioattn::schedules
