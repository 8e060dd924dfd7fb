// SDPA has the same bits for every number of threads, and a head those that it has alone, planned
// alone, wherever in a batch it is.

#include <cstring>

#include "schedules/sdpa_case.hpp"
#include "schedules/sdpa_heads_case.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class T>
std::vector<T> bits(const Plans& plans, const typename SdpaCase<T>::Run& run, SdpaCase<T>* of) {
  of->poison();
  EXPECT_OK(of->forward(plans.forward, run));
  EXPECT_OK(of->backward_from_forward({true, true, true, false}, plans.backward, run));
  return of->outputs();
}

// Heads [head, head + count) of entry b.
ref::Tensor<double> slice(const ref::Tensor<double>& all, std::size_t b, std::size_t head,
                          std::size_t count) {
  ref::Tensor<double> part(1, count, all.rows, all.cols);
  for (std::size_t i = 0; i < part.values.size(); ++i)
    part.values[i] = all.values[all.index(b, head, 0, 0) + i];
  return part;
}

template <class T>
bool has_slice(const ref::StridedTensor<T>& whole, std::size_t b, std::size_t head,
               const ref::StridedTensor<T>& part) {
  const ref::Tensor<T> all = whole.dense(), some = part.dense();
  return std::memcmp(&all.values[all.index(b, head, 0, 0)], some.values.data(),
                     some.values.size() * sizeof(T)) == 0;
}

// Every group of heads that shares keys, alone on one thread by plans of its own, has the bits that
// it has in `whole`.
template <class T>
void expect_heads_alone(const SdpaShape& shape, const ref::SdpaInputs<double>& inputs,
                        const Plans& plans, const kernels::KernelTable<T>& table,
                        const SdpaCase<T>& whole) {
  const std::size_t group = static_cast<std::size_t>(shape.group());
  const SdpaShape alone = group_alone(shape);
  for (std::size_t b = 0; b < inputs.Q.batch; ++b)
    for (std::size_t kv = 0; kv < inputs.K.heads; ++kv) {
      ref::SdpaInputs<double> part = inputs;
      part.Q = slice(inputs.Q, b, kv * group, group);
      part.K = slice(inputs.K, b, kv, 1);
      part.V = slice(inputs.V, b, kv, 1);
      part.dO = slice(inputs.dO, b, kv * group, group);
      SdpaCase<T> one(alone, ref::Layout::bhsd, part);
      bits(plans, {&table, 1}, &one);
      EXPECT_TRUE(has_slice(whole.o(), b, kv * group, one.o()));
      EXPECT_TRUE(has_slice(whole.lse(), b, kv * group, one.lse()));
      EXPECT_TRUE(has_slice(whole.dq(), b, kv * group, one.dq()));
      EXPECT_TRUE(has_slice(whole.dk(), b, kv, one.dk()));
      EXPECT_TRUE(has_slice(whole.dv(), b, kv, one.dv()));
    }
}

template <class T>
class SdpaThreads : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SdpaThreads, Types);

TYPED_TEST(SdpaThreads, DoNotChangeABitOfAnyHead) {
  using T = TypeParam;
  int layout = 0;
  for (const HeadsCase& c : heads_cases) {
    const SdpaShape shape = shape_of(c);
    const ref::SdpaInputs<double> inputs = SdpaCase<T>::inputs_for(shape, 31, 0);
    SdpaCase<T> problem(shape, ref::all_layouts[layout++ % 3], inputs);
    for (const kernels::KernelTable<T>* table : tables_under_test<T>()) {
      const std::vector<Plans> all = plans_for<T>(shape, table->tile),
                               of_group = plans_for<T>(group_alone(shape), table->tile);
      for (std::size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(std::string(c.problem) + " " + name_of(table->tile.isa) + " " +
                     name_of(all[i]));
        std::vector<T> expected;
        for (const int threads : thread_counts) {
          const std::vector<T> got = bits(all[i], {table, threads}, &problem);
          if (threads == 1) {
            expected = got;
            problem.check_forward(true, true, ref::pass_ratio);
            problem.check_backward({true, true, true, false}, ref::pass_ratio);
          }
          ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
              << threads << " threads";
        }
        expect_heads_alone(shape, inputs, of_group[i], *table, problem);
        if (this->HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
