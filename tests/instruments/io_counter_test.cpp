#include "instruments/io_counter.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace ioattn::instruments {
namespace {

constexpr Block s_block = {Operand::S, 0, 0, 4, 5};    // 20 words
constexpr Block x_block = {Operand::X, 0, 8, 3, 2};    // 6 words
constexpr Block u_block = {Operand::U, 16, 0, 1, 10};  // 10 words

TEST(IoCounter, StartsWithNothing) {
  const IoCounter counter;
  EXPECT_EQ(counter.total(), IoCost{});
  EXPECT_TRUE(counter.phases().empty());
  EXPECT_EQ(counter.violation(), "");
}

TEST(IoCounter, CountsWordsByEvent) {
  IoCounter counter;
  counter.read(x_block);
  counter.create(s_block);
  counter.write(s_block);
  counter.write(s_block);
  counter.remove(x_block);
  counter.create(u_block);
  counter.remove(s_block);
  counter.remove(u_block);
  EXPECT_EQ(counter.violation(), "");
  EXPECT_EQ(counter.total().reads, 6);
  EXPECT_EQ(counter.total().created, 30);
  EXPECT_EQ(counter.total().writes, 40);
  EXPECT_EQ(counter.total().words(), 46);
  EXPECT_EQ(counter.total().footprint, 30);  // S and U; X was removed before
}

TEST(IoCounter, BlocksComeBackAfterTheyWereRemoved) {
  IoCounter counter;
  for (int round = 0; round < 3; ++round) {
    counter.read(x_block);
    counter.remove(x_block);
  }
  EXPECT_EQ(counter.violation(), "");
  EXPECT_EQ(counter.total().reads, 18);
  EXPECT_EQ(counter.total().footprint, 6);
}

TEST(IoCounter, EventsBelongToTheLastPhase) {
  IoCounter counter;
  counter.read(x_block);  // before any phase
  counter.phase("project");
  counter.create(s_block);
  counter.remove(x_block);
  counter.phase("stream");
  counter.create(u_block);
  counter.write(u_block);
  counter.remove(u_block);
  counter.phase("rest");
  counter.write(s_block);
  counter.remove(s_block);
  EXPECT_EQ(counter.violation(), "");
  ASSERT_EQ(counter.phases().size(), 4u);
  const char* names[] = {"", "project", "stream", "rest"};
  const IoCost counts[] = {{6, 0, 0, 6}, {0, 0, 20, 26}, {0, 10, 10, 30}, {0, 20, 0, 20}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_STREQ(counter.phases()[i].name, names[i]);
    EXPECT_EQ(counter.phases()[i].count, counts[i]) << names[i];
  }
  EXPECT_EQ(counter.total(), (IoCost{6, 30, 30, 30}));
}

TEST(IoCounter, BlocksOfOneOperandAreToldApartByPlace) {
  IoCounter counter;
  const Block blocks[] = {{Operand::A1, 0, 0, 2, 2},
                          {Operand::A1, 2, 0, 2, 2},
                          {Operand::A1, 0, 2, 2, 2},
                          {Operand::A2, 0, 0, 2, 2}};
  for (const Block& block : blocks) counter.read(block);
  EXPECT_EQ(counter.total().footprint, 16);
  for (const Block& block : blocks) counter.remove(block);
  EXPECT_EQ(counter.violation(), "");
}

// One broken rule each.
TEST(IoCounter, SaysWhichRuleIsBroken) {
  const auto violation = [](auto events) {
    IoCounter counter;
    events(counter);
    return counter.violation();
  };
  using C = IoCounter;
  const Block other_size = {Operand::S, 0, 0, 5, 5};
  EXPECT_EQ(violation([](C& c) { c.read(s_block), c.read(s_block); }),
            "S(0,0)[4x5] made resident twice");
  EXPECT_EQ(violation([](C& c) { c.create(s_block), c.create(s_block); }),
            "S(0,0)[4x5] made resident twice");
  EXPECT_EQ(violation([](C& c) { c.read(s_block), c.create(s_block); }),
            "S(0,0)[4x5] made resident twice");
  EXPECT_EQ(violation([&](C& c) { c.create(s_block), c.read(other_size); }),
            "S(0,0)[5x5] made resident twice");
  EXPECT_EQ(violation([](C& c) { c.write(x_block); }), "X(0,8)[3x2] written while not resident");
  EXPECT_EQ(violation([](C& c) { c.remove(x_block); }), "X(0,8)[3x2] removed while not resident");
  EXPECT_EQ(violation([](C& c) { c.read(x_block), c.remove(x_block), c.write(x_block); }),
            "X(0,8)[3x2] written while not resident");
  EXPECT_EQ(violation([](C& c) { c.read(x_block), c.remove(x_block), c.remove(x_block); }),
            "X(0,8)[3x2] removed while not resident");
  EXPECT_EQ(violation([&](C& c) { c.create(s_block), c.write(other_size); }),
            "S(0,0)[5x5] written while not resident");
  EXPECT_EQ(violation([&](C& c) { c.create(s_block), c.remove(other_size); }),
            "S(0,0)[5x5] removed while not resident");
  EXPECT_EQ(violation([](C& c) { c.create(u_block); }), "U(16,0) never removed");
}

TEST(IoCounter, KeepsTheFirstBrokenRule) {
  IoCounter counter;
  counter.write(x_block);
  counter.remove(s_block);
  counter.read(u_block);  // left behind as well
  EXPECT_EQ(counter.violation(), "X(0,8)[3x2] written while not resident");
  EXPECT_EQ(counter.total().writes, 0);
}

TEST(IoCounter, DoesNotCountWhatBreaksARule) {
  IoCounter counter;
  counter.read(x_block);
  counter.read(x_block);
  counter.write(s_block);
  counter.remove(x_block);
  counter.remove(x_block);
  EXPECT_EQ(counter.total(), (IoCost{6, 0, 0, 6}));
}

// Against a plain account of the same random events.
TEST(IoCounter, AgreesWithAPlainAccount) {
  std::mt19937 engine(4);
  IoCounter counter;
  std::map<std::tuple<int, index_t, index_t>, Block> resident;
  IoCost expected;
  index_t words = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto draw = [&](unsigned most) { return static_cast<index_t>(engine() % most); };
    const int operand = static_cast<int>(draw(operand_count));
    Block block = {static_cast<Operand>(operand), draw(3) * 8, draw(3) * 8, 1 + draw(8),
                   1 + draw(8)};
    const auto key = std::make_tuple(operand, block.row, block.col);
    const auto found = resident.find(key);
    if (found == resident.end()) {
      const bool read = draw(2) == 0;
      read ? counter.read(block) : counter.create(block);
      (read ? expected.reads : expected.created) += block.words();
      words += block.words();
      expected.footprint = std::max(expected.footprint, words);
      resident.emplace(key, block);
    } else if (draw(2) == 0) {
      counter.write(found->second);
      expected.writes += found->second.words();
    } else {
      counter.remove(found->second);
      words -= found->second.words();
      resident.erase(found);
    }
  }
  for (const auto& [key, block] : resident) counter.remove(block);
  EXPECT_EQ(counter.violation(), "");
  EXPECT_EQ(counter.total(), expected);
}

}  // namespace
}  // namespace ioattn::instruments
