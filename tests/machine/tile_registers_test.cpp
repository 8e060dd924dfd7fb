#include "machine/tile_registers.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "machine/fake_system.hpp"

namespace ioattn::machine {
namespace {

// What the kernel is asked, and what it answers.
struct FakeKernel {
  int request = 0, question = 0;  // errors
  std::uint64_t permitted = 1u << 17 | 1u << 18;
  std::vector<int> asked = {};
};
FakeKernel* kernel = nullptr;

int arch_prctl(int code, std::uint64_t argument) {
  kernel->asked.push_back(code);
  if (code == 0x1023) {  // ARCH_REQ_XCOMP_PERM
    EXPECT_EQ(argument, 18u);
    return kernel->request;
  }
  EXPECT_EQ(code, 0x1022);  // ARCH_GET_XCOMP_PERM
  *reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(argument)) = kernel->permitted;
  return kernel->question;
}

class TileRegistersTest : public testing::Test {
 protected:
  TileRegistersTest() { kernel = &fake_; }
  ~TileRegistersTest() override { kernel = nullptr; }

  std::string request(const TileSystem& system, const char* wanted = nullptr) {
    return request_tiles(system, cpu_, wanted);
  }

  FakeKernel fake_;
  TileSystem system_ = {true, 0x602e7, arch_prctl};
  IsaSet cpu_ = [] {
    IsaSet cpu;
    cpu.add(Isa::avx512_bf16);
    return cpu;
  }();
};

TEST_F(TileRegistersTest, AreGranted) {
  for (const char* wanted : {static_cast<const char*>(nullptr), "", "avx512_amx"}) {
    fake_.asked.clear();
    EXPECT_EQ(request(system_, wanted), "");
    EXPECT_EQ(fake_.asked, (std::vector<int>{0x1023, 0x1022}));
  }
}

TEST_F(TileRegistersTest, AreNotAskedForInVain) {
  TileSystem no_instructions = system_;
  no_instructions.has_instructions = false;
  EXPECT_EQ(request(no_instructions), "this CPU has no AMX-BF16");
  EXPECT_EQ(request_tiles(system_, IsaSet(), nullptr), "this CPU has no AVX512-BF16");
  for (const std::uint64_t states : {0u, 0xe7u, 0x202e7u, 0x402e7u}) {
    TileSystem not_saved = system_;
    not_saved.saved_states = states;
    EXPECT_EQ(request(not_saved), "the kernel does not save tiles") << states;
  }
  for (const char* another : {"avx512_bf16", "scalar", "avx512_am", "avx512_amx2", "no such name"})
    EXPECT_EQ(request(system_, another),
              "IOATTN_ISA named another instruction set at the first call");
  EXPECT_TRUE(fake_.asked.empty());
}

TEST_F(TileRegistersTest, AreRefusedWithTheReason) {
  fake_.request = EPERM;
  EXPECT_EQ(request(system_), "the kernel refuses tiles to this process: Operation not permitted");
  fake_.request = ENOSPC;
  EXPECT_EQ(request(system_),
            "the kernel refuses tiles to this process: a signal stack is too small for them");
}

TEST_F(TileRegistersTest, AreToBeConfirmed) {
  fake_.permitted = 1u << 17;  // their configuration alone
  const std::string doubt = "the kernel does not confirm that this process may use tiles";
  EXPECT_EQ(request(system_), doubt);
  fake_.permitted |= 1u << 18;
  fake_.question = EINVAL;
  EXPECT_EQ(request(system_), doubt);
}

class TilesOfThisMachine : public FakeSystem {};

// Whatever is asked for, the set of instructions and the reason fit together.
TEST_F(TilesOfThisMachine, AreThereUnlessAnotherIsaIsNamed) {
  const char* const before = std::getenv("IOATTN_ISA");
  const std::string kept = before == nullptr ? "" : before;
  const auto found = [this](const char* wanted) {
    setenv("IOATTN_ISA", wanted, 1);
    Machine machine = detect(options_);
    EXPECT_EQ(machine.isa.has(Isa::avx512_amx), machine.no_tiles.empty()) << wanted;
    return machine;
  };
  const Machine asked = found("");
  EXPECT_EQ(found("avx512_amx").no_tiles, asked.no_tiles);
  EXPECT_NE(found("avx512_bf16").no_tiles, "");
  options_.use_environment = false;
  EXPECT_EQ(found("avx512_bf16").no_tiles, asked.no_tiles);
  if (before == nullptr) {
    unsetenv("IOATTN_ISA");
  } else {
    setenv("IOATTN_ISA", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace ioattn::machine
