#pragma once

#include "base/types.hpp"

namespace ioattn {

enum class Pass : std::uint8_t { forward, backward };
constexpr const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

// The loop nests over blocks. What each keeps in fast memory is in lib/schedules/README.md.
enum class Schedule : std::uint8_t {
  naive,        // paper Alg. 1 (backward only)
  paper_small,  // paper Alg. 2-6; forward: Saha and Ye
  paper_large,  // paper Alg. 7-9; forward: FlashAttention-2 order
  row_stream,   // rows of S, G, U resident, keys streamed
};
constexpr int schedule_count = 4;
const char* name_of(Schedule schedule);
bool parse_schedule(const char* name, Schedule* schedule);
bool exists(Schedule schedule, Pass pass);

// How the products with Y are bracketed. g: G = dO Y^T per row block (forward: O = (f A3) Y);
// h: h = A3 Y once, in memory. h is cheaper in flops when dv < d.
enum class Form : std::uint8_t { g, h };
constexpr const char* name_of(Form form) { return form == Form::g ? "g" : "h"; }

// Tiles of a product C[rows x cols] += A[rows x depth] B[depth x cols] that keeps one tile of C.
struct ProductBlocks {
  index_t rows = 0, cols = 0, depth = 0;
  bool operator==(const ProductBlocks&) const = default;
};

// Block sizes of a schedule, in rows and columns of the operands. A field that the schedule does
// not use is 0. Sizes may exceed the problem's: they are cut to it.
struct Blocks {
  index_t r = 0;         // query rows that are resident (paper: B, B_r)
  index_t c = 0;         // keys per step (paper: B_c)
  index_t rho = 0;       // query rows of a score tile
  index_t w = 0;         // columns of the streamed block of X and of Y
  index_t o = 0;         // rows of the streamed block of O
  index_t a = 0, b = 0;  // tile of dX
  Form form = Form::g;
  bool literal = false;  // as printed in the paper, although it does not fit in M
  ProductBlocks h;       // the product h = A3 Y of the h-form

  bool operator==(const Blocks&) const = default;
};

}  // namespace ioattn
