#include "machine/datapath.hpp"

#include <gtest/gtest.h>

#include "machine/machine.hpp"

namespace ioattn::machine {
namespace {

TEST(Datapath, IsToldByCpusOfAmd) {
  EXPECT_EQ(datapath_bits("AuthenticAMD", 0x6), 256) << "Zen 4";
  EXPECT_EQ(datapath_bits("AuthenticAMD", 0xe), 0) << "Zen 5: as wide as its registers";
  EXPECT_EQ(datapath_bits("AuthenticAMD", 0x0), 0);
  EXPECT_EQ(datapath_bits("HygonGenuine", 0x6), 256);
  EXPECT_EQ(datapath_bits("GenuineIntel", 0x6), 0) << "the leaf is not theirs";
  EXPECT_EQ(datapath_bits("", 0x6), 0);
  const int here = datapath_bits();
  EXPECT_TRUE(here == 0 || (here == 256 && this_machine().vendor != "GenuineIntel")) << here;
}

}  // namespace
}  // namespace ioattn::machine
