#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/isa.hpp"
#include "base/status.hpp"
#include "base/types.hpp"

namespace ioattn {

enum class Pass : std::uint8_t {
  forward,
  backward,       // dX
  backward_keys,  // gradients of keys and values, from S, h or G, LSE and delta in memory
};
constexpr const char* name_of(Pass pass) {
  return pass == Pass::forward ? "forward" : pass == Pass::backward ? "backward" : "backward_keys";
}

// The loop nests over blocks. What each keeps in fast memory is in lib/schedules/README.md.
enum class Schedule : std::uint8_t {
  naive,            // paper Alg. 1 (backward only)
  paper_small,      // paper Alg. 2-6; forward: Saha and Ye
  paper_large,      // paper Alg. 7-9; forward: FlashAttention-2 order
  row_stream,       // rows of S, G, U resident, keys streamed
  stationary,       // one output tile resident, f and p in memory
  q_stored,         // q in memory, rows of S, U resident (backward only)
  half_dim,         // the same, d in two halves (backward only)
  weight_resident,  // X, dX, rows of A1, G resident, A2 X^T made per row block (backward only)
  score_stored,     // rows of S, then of Z resident, scores in memory (forward only)
  resident,         // everything but the rows of A1 and dO (backward only)
  col_stream,       // keys, values, their gradients resident, queries streamed (backward_keys)
  tile_fused,       // score tiles resident, columns streamed (of SDPA forward, too)
};
constexpr int schedule_count = 12;

struct ScheduleTraits {
  const char* name;
  // Whether it is one of the paper's algorithms.
  bool is_papers = false;
  // Whether U of its backward pass can be had apart from dX, once S, G or h and delta are in
  // memory.
  bool leaves_u = false;
  // Whether it skips what a mask hides; the others compute every pair and refuse masks.
  bool takes_masks = false;
  // Whether n x m scores pass through memory: no plan has such a schedule unless it was asked for
  // or memory was limited.
  bool stores_scores = false;
  // Whether its backward pass takes O and LSE as inputs; the others compute them.
  bool takes_forward_results = true;
};
inline constexpr ScheduleTraits schedule_traits[schedule_count] = {
    {.name = "naive", .is_papers = true, .stores_scores = true, .takes_forward_results = false},
    {.name = "paper_small",
     .is_papers = true,
     .stores_scores = true,
     .takes_forward_results = false},
    {.name = "paper_large", .is_papers = true},
    {.name = "row_stream", .leaves_u = true, .takes_masks = true},
    {.name = "stationary", .stores_scores = true},
    {.name = "q_stored", .leaves_u = true, .stores_scores = true},
    {.name = "half_dim", .leaves_u = true, .stores_scores = true},
    {.name = "weight_resident"},
    {.name = "score_stored", .stores_scores = true},
    {.name = "resident", .takes_forward_results = false},
    {.name = "col_stream", .takes_masks = true},
    {.name = "tile_fused", .takes_masks = true},
};
constexpr const ScheduleTraits& traits_of(Schedule schedule) {
  return schedule_traits[static_cast<int>(schedule)];
}
static_assert(std::string_view(traits_of(Schedule::tile_fused).name) == "tile_fused");
constexpr const char* name_of(Schedule schedule) { return traits_of(schedule).name; }
bool parse_schedule(std::string_view name, Schedule* schedule);

// How the products with Y are bracketed. g: G = dO Y^T per row block (forward: O = (f A3) Y);
// h: h = A3 Y once, in memory. h is cheaper in flops when dv < d.
enum class Form : std::uint8_t { g, h };
constexpr const char* name_of(Form form) { return form == Form::g ? "g" : "h"; }

// What a pass over the keys computes: dA2, the gradient of the values (h-form: W = f^T dO, g-form:
// dA3 = f^T G), both, dA2 + dA3 in one accumulator (g-form, A2 = A3), or none of them: U alone.
enum class KeyGradients : std::uint8_t { keys, values, both, sum, none };
constexpr const char* name_of(KeyGradients wanted) {
  return wanted == KeyGradients::keys     ? "keys"
         : wanted == KeyGradients::values ? "values"
         : wanted == KeyGradients::both   ? "both"
         : wanted == KeyGradients::sum    ? "sum"
                                          : "none";
}
// A pass over the keys, and whether U = p A2 is made on the way: in one pass the scores are made
// once for all gradients, but rows of U pass through memory once per block of keys.
struct KeyPassKind {
  KeyGradients wanted = KeyGradients::both;
  bool queries = false;
  bool parts = false;  // S is the sum of two matrices in 16 bits
  bool operator==(const KeyPassKind&) const = default;

  constexpr KeyPassKind(KeyGradients gradients, bool of_queries = false)  // NOLINT: a kind of them
      : wanted(gradients), queries(of_queries) {}
  constexpr KeyPassKind in_parts(bool in_two = true) const {
    KeyPassKind kind = *this;
    kind.parts = in_two;
    return kind;
  }
  constexpr bool of_keys() const {
    return wanted != KeyGradients::values && wanted != KeyGradients::none;
  }
  constexpr bool of_values() const {
    return wanted != KeyGradients::keys && wanted != KeyGradients::none;
  }
  constexpr bool is_sum() const { return wanted == KeyGradients::sum; }
  constexpr bool makes_p() const { return of_keys() || queries; }
};
// All that there is to compute.
constexpr KeyGradients all_key_gradients(Form form, Tie tie) {
  return form == Form::g && tie != Tie::none ? KeyGradients::sum : KeyGradients::both;
}

// Where the thin products around the scores, S = A1 X and the like, are computed. fused: per row
// block, inside the schedule. stored: as products of their own, whose results pass through memory.
enum class Products : std::uint8_t { fused, stored };
constexpr const char* name_of(Products products) {
  return products == Products::fused ? "fused" : "stored";
}

// Tiles of a product C[rows x cols] += A[rows x depth] B[depth x cols]. One tile of C stays in fast
// memory; with keep_a the whole rows of A stay as well, while B streams past them.
struct ProductBlocks {
  index_t rows = 0, cols = 0, depth = 0;
  bool keep_a = false;
  bool operator==(const ProductBlocks&) const = default;
};

// Block sizes of a schedule, in rows and columns of the operands. A field that the schedule does
// not use is 0. Sizes may exceed the problem's: they are cut to it.
struct Blocks {
  index_t r = 0;         // query rows that are resident (paper: B, B_r)
  index_t c = 0;         // keys per step (paper: B_c)
  index_t share = 0;     // tile_fused, U on the way: keys whose terms a row of U gets at once; 0: c
  index_t rho = 0;       // query rows of a score tile
  index_t w = 0;         // columns of the streamed block of X and of Y, or of O; tile_fused: of all
  index_t o = 0;         // rows of the streamed block of O
  index_t a = 0, b = 0;  // tile of dX
  Form form = Form::g;
  Products products = Products::fused;
  bool literal = false;   // as printed in the paper, although it does not fit in M
  bool one_pass = false;  // col_stream, tile_fused: U is made on the way
  bool packed = false;    // tile_fused, of pairs: a block of keys is packed once, through memory
  bool parked = false;    // tile_fused, of numbers: f waits in memory while q is made
  // Products whose results pass through slow memory.
  ProductBlocks s;  // S = A1 X
  ProductBlocks g;  // G = dO Y^T
  ProductBlocks h;  // h = A3 Y
  ProductBlocks f;  // scores S A2^T; two tiles that share A2 where stationary has A2 = A3
  ProductBlocks q;  // q = G A3^T or dO h^T
  ProductBlocks u;  // U = p A2; forward: Z = f A3 or O = f h
  ProductBlocks x;  // dX = A1^T U; forward: O = Z Y

  bool operator==(const Blocks&) const = default;
};

// The rows and keys that stay, of longer blocks.
constexpr void take_rows(const Blocks& longer, Blocks* blocks) {
  blocks->r = longer.r;
  blocks->c = longer.c;
  blocks->rho = longer.rho;
}

// Whether a block of keys is of whole shares; these are of whole pairs of keys (bf16).
constexpr bool has_whole_shares(const Blocks& blocks) {
  return blocks.share == 0 || (blocks.share % 2 == 0 && blocks.c % blocks.share == 0);
}

// A pass of a schedule in one of its forms.
struct Variant {
  Pass pass;
  Schedule schedule;
  Form form = Form::g;
  Products products = Products::fused;
  bool operator==(const Variant&) const = default;
};
// All that exist, by pass, then in the order of the enumeration.
std::span<const Variant> variants();
bool exists(Schedule schedule, Pass pass);
bool has_form(Schedule schedule, Form form);
constexpr bool is_papers(Schedule schedule) { return traits_of(schedule).is_papers; }
constexpr bool leaves_u(Schedule schedule) { return traits_of(schedule).leaves_u; }
constexpr bool takes_masks(Schedule schedule) { return traits_of(schedule).takes_masks; }
constexpr bool stores_scores(Schedule schedule) { return traits_of(schedule).stores_scores; }
constexpr bool takes_forward_results(Schedule schedule) {
  return traits_of(schedule).takes_forward_results;
}
// Of rows that threads share, in blocks that are shorter by whole strips of rho: as many as are in
// whole strips, unless a block has all n. Strips are counted from the first row of a block, and
// sums begin and end with what a strip sees, so only then do no bits depend on threads.
constexpr void take_whole_strips(Schedule schedule, index_t n, Blocks* blocks) {
  const bool are_whole = blocks->r >= n || blocks->r <= blocks->rho;
  if (leaves_u(schedule) && !are_whole) blocks->r = round_down(blocks->r, blocks->rho);
}
// Whether it takes operands of the layer problem of that dtype: in 16 bits tile_fused multiplies
// pairs of bf16 as they are stored, on instruction sets that can, and others numbers in f32.
constexpr bool takes_dtype(Schedule schedule, DType dtype, Isa isa) {
  if (!is_half(dtype) || leaves_u(schedule) || schedule == Schedule::col_stream) return true;
  return schedule == Schedule::tile_fused && dtype == DType::bf16 && multiplies_pairs(isa);
}
// Whether the layer problem's scale is a factor of scores and of their gradients there, as of pairs
// of operands that are multiplied as they are stored: others get a scaled X.
constexpr bool scales_scores(Schedule schedule, bool half) {
  return half && schedule == Schedule::tile_fused;
}
Status check_pass(Schedule schedule, Pass pass);
Status check_masked(Schedule schedule, bool hides);
Status check_dtype(Schedule schedule, DType dtype, Isa isa);
Variant variant_of(Pass pass, Schedule schedule, const Blocks& blocks);
// "row_stream h stored"; the form only where the schedule has two.
std::string to_text(const Variant& variant);

// The fields of Blocks by name.
struct SizeField {
  const char* name;
  index_t Blocks::*size;
};
struct ProductField {
  const char* name;
  ProductBlocks Blocks::*product;
};
std::span<const SizeField> size_fields();
std::span<const ProductField> product_fields();
// Whether a variant needs the field of that name: then it is at least 1.
bool uses(const Variant& variant, std::string_view field);
// Every size that the variant uses is 1.
Blocks unit_blocks(const Variant& variant);

}  // namespace ioattn
