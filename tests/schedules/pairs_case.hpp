#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/trapped_tiles.hpp"
#include "schedules/half_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/tables.hpp"

// Problems of SDPA in bf16 by products of pairs of terms.
namespace ioattn_test {

inline std::vector<const ioattn::kernels::KernelTable<float>*> tables_of_pairs() {
  std::vector<const ioattn::kernels::KernelTable<float>*> tables = {&odd_tile_of_pairs()};
  for (const auto* table : tables_under_test<ioattn::bf16>())
    if (table->pairs_of_bf16 != nullptr) tables.push_back(table);
  for (const ioattn::Isa isa : {ioattn::Isa::emulated_bf16, ioattn::Isa::emulated_amx})
    tables.push_back(ioattn::kernels::find_kernels(isa)->of_bf16);
  // Alone where they are what is tested: `./run check amx`.
  const char* const wanted = std::getenv("IOATTN_ISA");
  if (trap_tiles() ||
      (wanted != nullptr && std::string(wanted) == name_of(ioattn::Isa::avx512_amx)))
    tables = {ioattn::kernels::find_kernels(ioattn::Isa::avx512_amx)->of_bf16};
  return tables;
}

// Those of products of f32, too.
template <class S>
std::vector<const ioattn::kernels::KernelTable<float>*> tables_of_half() {
  auto tables = tables_under_test<S>();
  if constexpr (std::is_same_v<S, ioattn::bf16>) {
    for (const auto* each : tables_of_pairs())
      if (std::find(tables.begin(), tables.end(), each) == tables.end()) tables.push_back(each);
  }
  return tables;
}

// Instructions that trap take a hundred times longer.
inline int step() { return trap_tiles() ? 7 : 1; }

// Relative to the largest number, unless that is what cancellation left; gaps are NaN in both.
template <class A, class B>
double error_of(const std::vector<A>& out, const std::vector<B>& expected) {
  double difference = 0, largest = 0.05;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(ioattn::to_compute(out[i]));
    const double y = double(ioattn::to_compute(expected[i]));
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::isnan(x) || std::isnan(y)) return HUGE_VAL;
    difference = std::max(difference, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  return difference / largest;
}

struct Trial {
  ioattn::SdpaShape shape;
  ioattn::SdpaSet set;
  ioattn::SdpaBlocks blocks;
  const ioattn::kernels::KernelTable<float>* table;
};

inline Trial random_trial(RandomProblem* random, int number) {
  static const auto tables = tables_of_pairs();
  const bool large = number % 8 == 7;
  Trial trial;
  trial.shape = random_shape(random, large ? 150 : 40, large ? 70 : 20);
  trial.set = random_set(random);
  add_random_bias(random, &trial.shape, &trial.set);
  trial.set.accumulate = false;
  trial.blocks = any_blocks(random);
  trial.blocks.rows.r *= random->uniform(0, 1);  // 0: by tiles
  trial.blocks.by_keys = ioattn::Schedule::tile_fused;
  trial.blocks.keys.packed = random->uniform(0, 1) == 1;
  divide_keys(random, &trial.blocks.keys);
  trial.blocks.keys.one_pass = !trial.set.dBias && random->uniform(0, 2) > 0;  // else by rows
  trial.table = tables[std::size_t(random->uniform(0, ioattn::index_t(tables.size()) - 1))];
  // Emulated tiles, however few of their rows are used, take a while.
  ioattn::SdpaBlocks& blocks = trial.blocks;
  for (ioattn::index_t* size : {&blocks.rows.rho, &blocks.keys.rho, &blocks.keys.c})
    if (large && multiplies_tiles(trial.table->tile.isa))
      *size = std::max<ioattn::index_t>(*size, 16);
  if (blocks.keys.share > 0) blocks.keys.c = ioattn::round_up(blocks.keys.c, blocks.keys.share);
  return trial;
}

// Backward passes need blocks of rows: not so short that packing keys is most of the work.
inline ioattn::SdpaBlocks of_backward(ioattn::SdpaBlocks blocks) {
  blocks.rows.rho = std::max(blocks.rows.rho, ioattn::index_t(1));
  blocks.rows.r = ioattn::round_up(ioattn::index_t(16), blocks.rows.rho);
  return blocks;
}

}  // namespace ioattn_test
