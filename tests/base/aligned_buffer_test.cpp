#include "base/aligned_buffer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

namespace {
bool refuse_memory = false;
int live_blocks = 0;
void* last_block = nullptr;
std::size_t last_bytes = 0;
}  // namespace

// The only way in which AlignedBuffer asks for memory and gives it back.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (refuse_memory) return nullptr;
  void* data = std::malloc(bytes);
  live_blocks += data != nullptr;
  last_block = data;
  last_bytes = bytes;
  return data;
}

void operator delete(void* data, const std::nothrow_t&) noexcept {
  live_blocks -= data != nullptr;
  std::free(data);
}

namespace ioattn {
namespace {

TEST(AlignedBuffer, IsAlignedAndWritable) {
  std::vector<AlignedBuffer> buffers;
  for (std::size_t bytes = 1; bytes <= 5000; bytes = bytes * 5 / 3 + 1) {
    buffers.emplace_back(bytes);
    ASSERT_NE(buffers.back().data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % AlignedBuffer::alignment,
              0u);
    const auto* first = static_cast<const std::byte*>(buffers.back().data());
    EXPECT_GE(first, static_cast<const std::byte*>(last_block));
    EXPECT_LE(first + bytes, static_cast<const std::byte*>(last_block) + last_bytes);
    std::memset(buffers.back().data(), 0xab, bytes);
  }
  EXPECT_EQ(live_blocks, static_cast<int>(buffers.size()));
  buffers.clear();
  EXPECT_EQ(live_blocks, 0);
}

TEST(AlignedBuffer, OfNothingAsksForNothing) {
  const AlignedBuffer none, zero(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(zero.data(), nullptr);
  EXPECT_EQ(live_blocks, 0);
}

TEST(AlignedBuffer, IsEmptyWhenMemoryIsRefused) {
  refuse_memory = true;
  const AlignedBuffer refused(64);
  refuse_memory = false;
  EXPECT_EQ(refused.data(), nullptr);
  EXPECT_EQ(live_blocks, 0);
  const AlignedBuffer granted(64);
  EXPECT_NE(granted.data(), nullptr);
}

TEST(AlignedBuffer, IsEmptyWhenNoMachineHasSoMuch) {
  const AlignedBuffer impossible(std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(impossible.data(), nullptr);
}

TEST(AlignedBuffer, MovesItsMemoryAndFreesItOnce) {
  {
    AlignedBuffer first(100);
    void* const data = first.data();
    AlignedBuffer second(std::move(first));
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT: the state after a move is part of the contract
    AlignedBuffer third(200);
    third = std::move(second);
    EXPECT_EQ(third.data(), data);
    third = AlignedBuffer();
    EXPECT_EQ(third.data(), nullptr);
  }
  EXPECT_EQ(live_blocks, 0);
}

}  // namespace
}  // namespace ioattn
