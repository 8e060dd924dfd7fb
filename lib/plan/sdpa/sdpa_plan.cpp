#include "plan/sdpa/sdpa_plan.hpp"

#include "base/tile_steps.hpp"
#include "plan/plan_items.hpp"

namespace ioattn::plan {
namespace {

constexpr std::string_view delta_name = "delta=";

struct Phases {
  bool delta, rows, keys;
  bool forward = false;  // rows may be of tile_fused
};

Phases phases_of(const SdpaBlocks& blocks, const std::optional<SdpaSet>& set) {
  if (!set) return {false, true, false, true};
  return {set->delta(), set->query_pass(blocks), set->key_pass(blocks)};
}

bool is_tiles(const Blocks& rows, const Phases& runs) {
  return runs.forward && forward_schedule(rows) == Schedule::tile_fused;
}

bool has(const SdpaBlocks& blocks, const Phases& runs) {
  const Blocks &rows = blocks.rows, &keys = blocks.keys;
  if (is_tiles(rows, runs)) {
    return rows.c > 0 && rows.rho > 0 && rows.w > 0 && rows.form == Form::h &&
           rows.products == Products::fused;
  }
  return (!runs.rows || (rows.r > 0 && rows.c > 0 && rows.rho > 0 && rows.form == Form::h &&
                         rows.products == Products::stored)) &&
         (!runs.delta || (rows.o > 0 && rows.w > 0)) &&
         (!runs.keys || (keys.c > 0 && keys.rho > 0 && keys.form == Form::h &&
                         (blocks.by_keys == Schedule::col_stream ||
                          (blocks.by_keys == Schedule::tile_fused && keys.w > 0))));
}

SdpaBlocks cut(const SdpaBlocks& blocks, const Phases& runs) {
  SdpaBlocks taken;
  taken.rows.form = Form::h;
  taken.rows.products = Products::stored;
  if (is_tiles(blocks.rows, runs)) {
    taken.rows.products = Products::fused;
    taken.rows.c = blocks.rows.c;
    taken.rows.rho = blocks.rows.rho;
    taken.rows.w = blocks.rows.w;
    return taken;
  }
  if (runs.rows) {
    taken.rows.r = blocks.rows.r;
    taken.rows.c = blocks.rows.c;
    taken.rows.rho = blocks.rows.rho;
  }
  if (runs.delta) {
    taken.rows.o = blocks.rows.o;
    taken.rows.w = blocks.rows.w;
  }
  if (runs.keys) {
    taken.keys.form = Form::h;
    taken.keys.c = blocks.keys.c;
    taken.keys.share = blocks.keys.share;
    taken.keys.rho = blocks.keys.rho;
    taken.keys.one_pass = blocks.keys.one_pass;
    taken.by_keys = blocks.by_keys;
    if (taken.by_keys == Schedule::tile_fused) {
      taken.keys.w = blocks.keys.w;
      taken.keys.packed = blocks.keys.packed;
      taken.keys.parked = blocks.keys.parked;
    }
  }
  return taken;
}

// One item of the text; what no phase takes is left behind, so that the text is not canonical.
bool parse_item(std::string_view item, bool forward, SdpaPlan* plan) {
  SdpaBlocks& blocks = plan->blocks;
  if (item.starts_with(delta_name)) {
    // As if of a product that sums over one column.
    ProductBlocks delta;
    if (!parse_product(std::string(item.substr(delta_name.size())) + "x1", &delta)) return false;
    blocks.rows.o = delta.rows;
    blocks.rows.w = delta.cols;
    return true;
  }
  Plan pass;
  if (!is_pass(item) || !parse_pass(item, &pass, plan)) return false;
  if (forward && pass.schedule == Schedule::tile_fused) {
    blocks.rows.c = pass.blocks.c;
    blocks.rows.rho = pass.blocks.rho;
    blocks.rows.w = pass.blocks.w;
  } else if (pass.schedule == Schedule::col_stream || pass.schedule == Schedule::tile_fused) {
    blocks.keys = pass.blocks;
    blocks.by_keys = pass.schedule;
  } else {
    blocks.rows.r = pass.blocks.r;
    blocks.rows.c = pass.blocks.c;
    blocks.rows.rho = pass.blocks.rho;
  }
  return true;
}

}  // namespace

SdpaBlocks blocks_taken(const SdpaBlocks& blocks, const std::optional<SdpaSet>& set) {
  SdpaBlocks taken = cut(blocks, phases_of(blocks, set));
  if (!set) return taken;
  taken.keys.one_pass = set->in_one_pass(taken);
  if (taken.by_keys != Schedule::tile_fused || !taken.keys.one_pass) taken.keys.share = 0;
  taken.keys.parked = is_parked(taken.keys, set->key_kind(taken));
  return taken;
}

bool has_blocks(const SdpaBlocks& blocks, const std::optional<SdpaSet>& set) {
  return has(blocks, phases_of(blocks, set)) && !(set && set->dBias && blocks.keys.one_pass);
}

std::string to_text(const SdpaPlan& plan) {
  std::string text;
  Blocks rows = plan.blocks.rows;
  const bool by_tiles = rows.r == 0 && rows.c > 0;  // forward, and nothing else runs
  if (by_tiles) return pass_text(plan, Schedule::tile_fused, rows);
  rows.o = rows.w = 0;
  if (rows.r > 0) add_item(pass_text(plan, Schedule::row_stream, rows), &text);
  if (plan.blocks.keys.c > 0) {
    add_item(pass_text(plan, plan.blocks.by_keys, plan.blocks.keys), &text);
  }
  if (plan.blocks.rows.o > 0) {
    add_item(std::string(delta_name) + std::to_string(plan.blocks.rows.o) + "x" +
                 std::to_string(plan.blocks.rows.w),
             &text);
  }
  return text;
}

bool parse_sdpa_plan(std::string_view text, const std::optional<SdpaSet>& set, SdpaPlan* plan,
                     std::string* error) {
  const char* const what = set ? "these gradients of SDPA" : "the forward pass of SDPA";
  SdpaPlan parsed;
  const auto canonical = [&] {
    parsed.blocks = blocks_taken(parsed.blocks, set);
    parsed.blocks.keys.packed &= multiplies_pairs(parsed.tile.isa);
    parsed.blocks.keys.parked &= !multiplies_pairs(parsed.tile.isa);
    return to_text(parsed);
  };
  const auto item = [&](std::string_view of) { return parse_item(of, !set, &parsed); };
  if (!parse_items(text, what, item, canonical, error)) return false;
  if (!has_blocks(parsed.blocks, set)) {
    *error = std::string("not a plan of ") + what + ": " + std::string(text) + " (it lacks blocks)";
    return false;
  }
  *plan = parsed;
  return true;
}

}  // namespace ioattn::plan
