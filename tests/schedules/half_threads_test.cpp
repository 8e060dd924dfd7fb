// SDPA in 16 bits, by products of f32 and of pairs, has the same bits for every number of threads,
// and a head those that it has alone, planned alone, wherever in a batch it is.

#include <iterator>

#include "schedules/pairs_case.hpp"
#include "schedules/sdpa_heads_case.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class S, class G>
void compute(const Plans& plans, const typename HalfCase<S, G>::Run& run, HalfCase<S, G>* of) {
  of->o.poison();
  of->lse.poison();
  ASSERT_OK(of->forward(plans.forward, run));
  ASSERT_OK(of->backward({true, true, true, false}, plans.backward, run));
}

template <class S, class G>
void expect_same(const HalfCase<S, G>& a, const HalfCase<S, G>& b) {
  EXPECT_TRUE(same_bytes(a.o.values(), b.o.values())) << "O";
  EXPECT_TRUE(same_bytes(a.lse.values(), b.lse.values())) << "LSE";
  EXPECT_TRUE(same_bytes(a.dq.values(), b.dq.values())) << "dQ";
  EXPECT_TRUE(same_bytes(a.dk.values(), b.dk.values())) << "dK";
  EXPECT_TRUE(same_bytes(a.dv.values(), b.dv.values())) << "dV";
}

// Part `index` of as many as a tensor is made of, heads after heads.
template <class A>
void take_part(const GapTensor<A>& all, index_t index, GapTensor<A>* part) {
  const auto size = std::ptrdiff_t(part->values().size());
  std::copy_n(all.values().begin() + index * size, size, part->values().begin());
}

// The heads that share one of keys.
template <class S, class G>
HalfCase<S, G> group_of(const HalfCase<S, G>& all, index_t key_head) {
  HalfCase<S, G> part(group_alone(all.shape));
  using Case = HalfCase<S, G>;
  for (GapTensor<S> Case::*each : {&Case::q, &Case::k, &Case::v, &Case::d_o, &Case::o})
    take_part(all.*each, key_head, &(part.*each));
  for (GapTensor<G> Case::*each : {&Case::dq, &Case::dk, &Case::dv})
    take_part(all.*each, key_head, &(part.*each));
  take_part(all.lse, key_head, &part.lse);
  return part;
}

// More than one; emulated kernels, which take longer, have all of them in two rounds.
template <class Round>
std::vector<int> several_threads(Isa isa, Round round) {
  const auto some = some_thread_counts(round);
  if (is_emulated(isa)) return {some.begin(), some.end()};
  return {std::begin(thread_counts) + 1, std::end(thread_counts)};
}

// With gradients of type G. Emulated kernels have every other plan in a round.
template <class S, class G>
void check(const SdpaShape& shape, const kernels::KernelTable<float>* table, std::size_t round) {
  const std::vector<Plans> all = plans_for<S>(shape, table->tile),
                           of_group = plans_for<S>(group_alone(shape), table->tile);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_emulated(table->tile.isa) && (i + round) % 2 == 1) continue;
    SCOPED_TRACE(name_of(all[i]));
    HalfCase<S, G> one(shape);
    one.randomise(31);
    compute<S, G>(all[i], {table}, &one);
    HalfCase<S, G> problem = one;
    for (const int threads : several_threads(table->tile.isa, i)) {
      SCOPED_TRACE(threads);
      compute<S, G>(all[i], {table, threads}, &problem);
      expect_same(problem, one);
    }
    for (index_t key_head = 0; key_head < shape.all_kv_heads(); ++key_head) {
      SCOPED_TRACE("head of keys " + std::to_string(key_head));
      HalfCase<S, G> alone = group_of(one, key_head);
      compute<S, G>(of_group[i], {table}, &alone);
      expect_same(alone, group_of(one, key_head));
    }
    if (testing::Test::HasFailure()) return;
  }
}

template <class S>
class HalfThreads : public testing::Test {};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfThreads, Types);

TYPED_TEST(HalfThreads, DoNotChangeABitOfAnyHead) {
  using S = TypeParam;
  for (std::size_t i = 0; i < std::size(heads_cases); ++i)
    for (const auto* table : tables_of_half<S>()) {
      const Isa isa = table->tile.isa;
      SCOPED_TRACE(std::string(heads_cases[i].problem) + " " + name_of(isa));
      const SdpaShape shape = shape_of(heads_cases[i]);
      if (!is_emulated(isa) || i % 2 == 0) check<S, S>(shape, table, i / 2);
      if (!is_emulated(isa) || i % 2 == 1) check<S, float>(shape, table, i / 2);
      if (this->HasFailure()) return;
    }
}

}  // namespace
}  // namespace ioattn_test
