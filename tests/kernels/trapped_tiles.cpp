#include "kernels/trapped_tiles.hpp"

#include <cstdlib>
#include <cstring>

#include "base/isa.hpp"
#include "machine/machine.hpp"

#if defined(__x86_64__)

#include <ucontext.h>

#include <csignal>

#include "kernels/generic/emulated_tiles.hpp"

namespace ioattn_test {
namespace {

using ioattn::index_t;

// The state that LDTILECFG loads, and the tiles of a thread.
struct Configuration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
struct Tile {
  std::uint32_t words[16][16];
};
struct Tiles {
  Configuration shape;
  Tile tile[8];
};
thread_local Tiles tiles;

struct sigaction before;

struct Operands {
  const unsigned char* next;  // behind the ModRM byte
  unsigned reg, rm, vvvv, mod;
  bool extends_base, extends_index;
};

constexpr int numbers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                           REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

struct Memory {
  char* first;
  index_t stride;
  index_t length;  // of the instruction behind its ModRM byte
};

// [base + displacement], and the index register times its scale apart.
Memory memory_of(const Operands& o, const ucontext_t& context) {
  const auto value = [&](unsigned number) { return context.uc_mcontext.gregs[numbers[number]]; };
  Memory memory = {nullptr, 0, 0};
  unsigned base = o.rm;
  const unsigned char* next = o.next;
  if (o.rm == 4) {
    const unsigned sib = *next++;
    base = sib & 7;
    const unsigned index = (sib >> 3 & 7) | (o.extends_index ? 8u : 0u);
    if (index != 4) memory.stride = value(index) << (sib >> 6);
  }
  const bool no_base = o.mod == 0 && base == 5;
  std::int64_t address = 0;
  if (!no_base) address = value(base | (o.extends_base ? 8u : 0u));
  if (o.mod == 1) {
    address += static_cast<signed char>(*next++);
  } else if (o.mod == 2 || no_base) {
    std::int32_t far = 0;
    std::memcpy(&far, next, sizeof far);
    next += sizeof far;
    address += far;
    if (no_base && o.rm != 4) address += reinterpret_cast<std::intptr_t>(next);  // of RIP
  }
  memory.first = reinterpret_cast<char*>(address);
  memory.length = next - o.next;
  return memory;
}

bool is_configured(unsigned tile) {
  return tiles.shape.palette == 1 && tiles.shape.rows[tile] > 0 && tiles.shape.row_bytes[tile] > 0;
}

// Of whole tiles, by the arithmetic that other tests hold to the manual.
bool multiply_add(unsigned c, unsigned a, unsigned b) {
  for (const unsigned tile : {a, b, c}) {
    if (!is_configured(tile) || tiles.shape.rows[tile] != 16 || tiles.shape.row_bytes[tile] != 64)
      return false;
  }
  if (a == b || a == c || b == c) return false;
  using Emulated = ioattn::kernels::EmulatedTiles;
  float sums[16][16];
  Emulated::configure();
  Emulated::load<0>(tiles.tile[c].words, 16);
  Emulated::load<1>(tiles.tile[a].words, 16);
  Emulated::load<2>(tiles.tile[b].words, 16);
  Emulated::multiply_add<0, 1, 2>();
  Emulated::store<0>(sums[0], 16);
  Emulated::release();
  std::memcpy(tiles.tile[c].words, sums, sizeof sums);
  return true;
}

bool move(unsigned tile, const Memory& memory, bool loads) {
  if (!is_configured(tile)) return false;
  if (loads) tiles.tile[tile] = {};
  for (index_t i = 0; i < tiles.shape.rows[tile]; ++i) {
    char* const row = memory.first + i * memory.stride;
    std::uint32_t* const words = tiles.tile[tile].words[i];
    if (loads) {
      std::memcpy(words, row, tiles.shape.row_bytes[tile]);
    } else {
      std::memcpy(row, words, tiles.shape.row_bytes[tile]);
    }
  }
  return true;
}

bool configure(const Memory& memory) {
  Configuration shape;
  std::memcpy(&shape, memory.first, sizeof shape);
  static constexpr unsigned char zeros[14] = {};
  if (shape.palette != 1 || std::memcmp(shape.reserved, zeros, sizeof zeros) != 0) return false;
  for (int tile = 0; tile < 16; ++tile) {
    const bool has_rows = shape.rows[tile] > 0, has_bytes = shape.row_bytes[tile] > 0;
    if (shape.rows[tile] > 16 || shape.row_bytes[tile] > 64 || has_rows != has_bytes ||
        (tile >= 8 && has_rows))
      return false;
  }
  tiles = {};
  tiles.shape = shape;
  return true;
}

// Does the instruction and steps over it, if it is one of AMX.
bool execute(ucontext_t* context) {
  auto& rip = context->uc_mcontext.gregs[REG_RIP];
  const auto* const code = reinterpret_cast<const unsigned char*>(rip);
  // VEX of three bytes, opcodes 0F 38, W = L = 0.
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return false;
  const unsigned prefix = code[2] & 3, opcode = code[3], modrm = code[4];
  Operands o = {};
  o.next = code + 5;
  o.mod = modrm >> 6;
  o.reg = modrm >> 3 & 7;
  o.rm = modrm & 7;
  o.vvvv = ~(code[2] >> 3) & 15;
  o.extends_index = (code[1] & 0x40) == 0;
  o.extends_base = (code[1] & 0x20) == 0;
  enum { none = 0, p66 = 1, f3 = 2, f2 = 3 };
  Memory memory = {nullptr, 0, 0};
  if (o.mod != 3) memory = memory_of(o, *context);
  bool done = false;
  if (opcode == 0x49 && prefix == none && o.mod == 3 && modrm == 0xc0) {  // TILERELEASE
    tiles = {};
    done = true;
  } else if (opcode == 0x49 && prefix == none && o.mod != 3 && o.reg == 0) {  // LDTILECFG
    done = configure(memory);
  } else if (opcode == 0x49 && prefix == f2 && o.mod == 3 && o.rm == 0) {  // TILEZERO
    done = is_configured(o.reg);
    tiles.tile[o.reg] = {};
  } else if (opcode == 0x4b && prefix != none && o.mod != 3 && o.rm == 4) {
    done = move(o.reg, memory, prefix != f3);                 // TILELOADD, TILELOADDT1, TILESTORED
  } else if (opcode == 0x5c && prefix == f3 && o.mod == 3) {  // TDPBF16PS
    done = multiply_add(o.reg, o.rm, o.vvvv);
  }
  if (done) rip += 5 + memory.length;
  return done;
}

void on_illegal_instruction(int, siginfo_t*, void* context) {
  if (!execute(static_cast<ucontext_t*>(context))) {
    sigaction(SIGILL, &before, nullptr);  // it is repeated
  }
}

}  // namespace

bool trap_tiles() {
  static const bool trapped = [] {
    const char* const wanted = std::getenv("IOATTN_TEST_TILES");
    if (wanted == nullptr || std::strcmp(wanted, "trapped") != 0) return false;
    if (!ioattn::machine::this_machine().isa.has(ioattn::Isa::avx512_bf16)) return false;
    struct sigaction action = {};
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGILL, &action, &before) == 0;
  }();
  return trapped;
}

}  // namespace ioattn_test

#else

bool ioattn_test::trap_tiles() { return false; }

#endif
