#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "status_ok.hpp"

namespace ioattn::kernels {
namespace {

IsaSet every_isa() {
  IsaSet set;
  for (int i = 0; i < isa_count; ++i) set.add(static_cast<Isa>(i));
  return set;
}

TEST(Dispatch, ListsBestFirstAndScalarLast) {
  const KernelList list = all_kernels();
  ASSERT_GE(list.count, 1);
  for (int i = 1; i < list.count; ++i)
    EXPECT_GT(list.first[i - 1]->isa, list.first[i]->isa);  // the enumeration ascends
  EXPECT_EQ(list.first[list.count - 1]->isa, Isa::scalar);
  std::vector<std::string> names;
  for (const Kernels* kernels : list) names.push_back(name_of(kernels->isa));
#if defined(__x86_64__)
  EXPECT_EQ(names,
            (std::vector<std::string>{"avx512_amx", "avx512_bf16", "avx512", "avx2", "scalar"}));
#elif defined(__aarch64__)
  EXPECT_EQ(names, (std::vector<std::string>{"neon", "scalar"}));
#endif
}

TEST(Dispatch, TablesAreCompleteAndTellTheirIsa) {
  for (const Kernels* kernels : all_kernels()) {
    SCOPED_TRACE(name_of(kernels->isa));
    const auto check = [&](const auto& table) {
      // Of f32 and f64 an ISA may share the kernels of a lesser one.
      EXPECT_EQ(table.pairs_of_bf16 != nullptr, multiplies_pairs(table.tile.isa));
      EXPECT_LE(table.tile.isa, kernels->isa);
      EXPECT_GE(table.tile.rows, 1);
      EXPECT_GE(table.tile.cols, 1);
      EXPECT_TRUE(table.product && table.pack && table.exp_tile && table.gradient_tile &&
                  table.dot_tile && table.softmax_update && table.row_dot && table.scale_rows &&
                  table.are_finite && table.transpose && table.fma_loop);
      EXPECT_EQ(table.fma_per_iteration, table.tile.rows * table.tile.cols);
    };
    check(kernels->table<float>());
    check(kernels->table<double>());
    check(kernels->table<bf16>());
    EXPECT_EQ(kernels->tile(DType::bf16).isa, kernels->isa);
    EXPECT_EQ(kernels->tile(DType::f16), kernels->tile(DType::f32));
    EXPECT_EQ(kernels->tile(DType::f32).cols, kernels->f32->tile.cols);
    EXPECT_EQ(kernels->tile(DType::f64).cols, kernels->f64->tile.cols);
    EXPECT_EQ(find_kernels(kernels->isa), kernels);
  }
  EXPECT_EQ(find_kernels(static_cast<Isa>(isa_count)), nullptr);
}

TEST(Dispatch, TakesTheBestThatTheCpuHas) {
  for (const Kernels* best : all_kernels()) {
    IsaSet cpu;  // this one and all that are less
    for (int i = 0; i <= static_cast<int>(best->isa); ++i) cpu.add(static_cast<Isa>(i));
    for (const char* no_override : {static_cast<const char*>(nullptr), ""}) {
      const Kernels* chosen = nullptr;
      ASSERT_OK(select_kernels(cpu, no_override, &chosen));
      EXPECT_EQ(chosen, best);
    }
  }
}

TEST(Dispatch, OverrideTakesEffect) {
  for (const Kernels* wanted : all_kernels()) {
    const Kernels* chosen = nullptr;
    ASSERT_OK(select_kernels(every_isa(), name_of(wanted->isa), &chosen));
    ASSERT_EQ(chosen, wanted);
    EXPECT_EQ(chosen->tile(DType::bf16).isa, wanted->isa);
  }
}

TEST(Dispatch, HasOtherProductsWhereVectorsAreTakenByHalves) {
  for (const Kernels* kernels : all_kernels()) {
    SCOPED_TRACE(name_of(kernels->isa));
    EXPECT_EQ(find_kernels(kernels->isa, 0), kernels);
    EXPECT_EQ(find_kernels(kernels->isa, 512), kernels);
    const Kernels* const halves = find_kernels(kernels->isa, 256);
    const bool are_there = kernels->isa == Isa::avx512 || kernels->isa == Isa::avx512_bf16;
    ASSERT_EQ(halves != kernels, are_there);
    if (!are_there) continue;
    EXPECT_EQ(halves->isa, kernels->isa);
    EXPECT_NE(halves->f32->product, kernels->f32->product);
    EXPECT_NE(halves->f64->product, kernels->f64->product);
    EXPECT_EQ(halves->f32->pack, kernels->f32->pack);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      EXPECT_EQ(halves->tile(dtype), kernels->tile(dtype));
  }
}

TEST(Dispatch, HasEmulatedPairsOnRequest) {
  for (const Isa isa : {Isa::emulated_bf16, Isa::emulated_amx}) {
    const Kernels* chosen = nullptr;
    ASSERT_OK(select_kernels(IsaSet(), name_of(isa), &chosen));
    EXPECT_EQ(chosen, find_kernels(isa));
    EXPECT_EQ(chosen->tile(DType::bf16).isa, isa);
    EXPECT_EQ(chosen->tile(DType::f32).isa, Isa::scalar);
  }
}

// Plans name a register tile, by whose instruction set they find their kernels again.
TEST(Dispatch, TilesAreThoseOfTheInstructionSetThatTheyName) {
  std::vector<const Kernels*> all(all_kernels().begin(), all_kernels().end());
  for (const Isa isa : {Isa::emulated_bf16, Isa::emulated_amx}) all.push_back(find_kernels(isa));
  for (const Kernels* kernels : all) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const TileShape tile = kernels->tile(dtype);
      EXPECT_EQ(find_kernels(tile.isa)->tile(dtype), tile)
          << name_of(kernels->isa) << " " << name_of(dtype);
    }
  }
}

#if defined(__x86_64__)
TEST(Dispatch, TakesTilesWhereTheyAreGranted) {
  const Kernels* chosen = nullptr;
  ASSERT_OK(select_kernels(every_isa(), nullptr, &chosen));
  EXPECT_EQ(chosen, find_kernels(Isa::avx512_amx));
  EXPECT_EQ(chosen->tile(DType::bf16).isa, Isa::avx512_amx);
  EXPECT_EQ(chosen->tile(DType::f32).isa, Isa::avx512);
  IsaSet refused;
  refused.add(Isa::avx2);
  refused.add(Isa::avx512);
  refused.add(Isa::avx512_bf16);
  ASSERT_OK(select_kernels(refused, nullptr, &chosen));
  EXPECT_EQ(chosen->isa, Isa::avx512_bf16);
}
#endif

TEST(Dispatch, TilesAreSetUpAndGivenBack) {
  for (const Isa isa : {Isa::avx512_amx, Isa::emulated_amx}) {
    const Kernels* const kernels = find_kernels(isa);
    if (kernels == nullptr) continue;
    EXPECT_NE(kernels->of_bf16->pairs_of_bf16->acquire, nullptr);
    EXPECT_NE(kernels->of_bf16->pairs_of_bf16->release, nullptr);
  }
  const PairRegion without_pairs(nullptr);
  const PairRegion without_tiles(find_kernels(Isa::emulated_bf16)->of_bf16->pairs_of_bf16);
}

TEST(Dispatch, RefusesWhatTheCpuLacks) {
  const Kernels* const untouched = all_kernels().first[0];
  for (const Kernels* kernels : all_kernels()) {
    if (IsaSet().has(kernels->isa)) continue;
    const Kernels* chosen = untouched;
    const Status status = select_kernels(IsaSet(), name_of(kernels->isa), &chosen);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_EQ(status.message(), std::string("IOATTN_ISA: ") + name_of(kernels->isa) +
                                    " is not available on this CPU");
    EXPECT_EQ(chosen, untouched);
  }
}

TEST(Dispatch, RefusesUnknownNames) {
  for (const std::string name : {"avx1024", "AVX2", " avx2", "scalar,avx2"}) {
    const Kernels* chosen = nullptr;
    const Status status = select_kernels(every_isa(), name.c_str(), &chosen);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.message(), "IOATTN_ISA: no ISA is called \"" + name + "\"" +
                                    "; there are scalar, avx2, avx512, neon, avx512_bf16, "
                                    "emulated_bf16, avx512_amx, emulated_amx");
    EXPECT_EQ(chosen, nullptr);
  }
}

TEST(FmaPeak, OfTilesHasARegion) {
  EXPECT_GT(measure_fma_peak(*find_kernels(Isa::emulated_amx), DType::bf16, 0.03), 1e6);
}

TEST(FmaPeak, IsPositiveAndVectorsBeatScalar) {
  const IsaSet cpu = machine::this_machine().isa;
  constexpr double seconds = 0.03;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double scalar = measure_fma_peak(*find_kernels(Isa::scalar), dtype, seconds);
    EXPECT_GT(scalar, 1e7);
    for (const Kernels* kernels : all_kernels()) {
      if (kernels->isa == Isa::scalar || !cpu.has(kernels->isa)) continue;
      EXPECT_GT(measure_fma_peak(*kernels, dtype, seconds), scalar)
          << name_of(kernels->isa) << ", " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace ioattn::kernels
