#include "instruments/created_memory.hpp"

#include <gtest/gtest.h>

#include "instruments/io_counter.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using instruments::CreatedMemory;
using instruments::IoCounter;

TEST(CreatedMemory, CountsTilesOnce) {
  IoCounter counter;
  CreatedMemory created(&counter);
  const Block rows = {Operand::S, 0, 0, 10, 4}, more = {Operand::S, 10, 0, 10, 4};
  for (const Block& s : {rows, more}) {
    created.create(s);
    for (index_t key = 0; key < 5; ++key) {
      const Block p = {Operand::p, s.row, key, 10, 2};
      created.create(p);
      created.remove(p);
    }
    created.remove(s);
  }
  EXPECT_EQ(created.words(), 2 * 40 + 20);
  EXPECT_EQ(counter.total().created, 2 * 40 + 10 * 20);  // and the next one is told
  EXPECT_EQ(counter.violation(), "");
}

TEST(CreatedMemory, CountsTilesThatAreWrittenInFull) {
  IoCounter counter;
  CreatedMemory created(&counter);
  for (index_t row = 0; row < 3; ++row) {
    const Block f = {Operand::f, row, 0, 1, 7}, q = {Operand::q, row, 0, 1, 5};
    created.create(f);
    created.create(q);
    created.write(f);
    created.remove(q);
    created.remove(f);
  }
  EXPECT_EQ(created.words(), 3 * 7 + 5);
}

TEST(CreatedMemory, CountsTheMostTilesAtATime) {
  IoCounter counter;
  CreatedMemory created(&counter);
  const Block read = {Operand::A2, 0, 0, 3, 3};
  created.read(read);
  created.write(read);
  created.remove(read);
  for (index_t i = 0; i < 3; ++i) created.create({Operand::p, i, 0, 1, 4});
  for (index_t i = 0; i < 3; ++i) created.remove({Operand::p, i, 0, 1, 4});
  created.create({Operand::p, 0, 0, 1, 4});
  created.remove({Operand::p, 0, 0, 1, 4});
  EXPECT_EQ(created.words(), 12);
}

}  // namespace
}  // namespace ioattn_test
