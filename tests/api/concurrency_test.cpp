// Many threads call at once. The first test makes the first calls of the process.

#include <atomic>
#include <memory>
#include <thread>

#include "api/layer_call.hpp"

namespace ioattn_test {
namespace {

constexpr int callers = 16;

template <class Body>
void on_every_caller(Body body) {
  std::atomic<int> waiting{callers};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      body(caller);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

template <class T>
std::vector<std::unique_ptr<LayerCall<T>>> calls() {
  std::vector<std::unique_ptr<LayerCall<T>>> all;
  for (int caller = 0; caller < callers; ++caller) {
    const auto size = static_cast<std::size_t>(caller);
    all.push_back(std::make_unique<LayerCall<T>>(
        CaseShape{200 + 7 * size, 150 + 3 * size, 20 + size, 24, Ties::none}, size % 3,
        Kind::normal, size));
  }
  return all;
}

inline const char* schedule_of(int caller, int round) {
  return backward_schedules[static_cast<std::size_t>(caller + round) %
                            std::size(backward_schedules)];
}

template <class T>
std::vector<T> results_at_once(int rounds) {
  const auto all = calls<T>();
  std::vector<std::vector<T>> outputs(callers);
  std::atomic<int> failures{0};
  on_every_caller([&](int caller) {
    LayerCall<T>& call = *all[static_cast<std::size_t>(caller)];
    for (int round = 0; round < rounds; ++round) {
      const ioattn_options options = with_schedule(schedule_of(caller, round));
      call.reset();
      if (call.forward(has_forward_pass(options.schedule) ? &options : nullptr) != IOATTN_OK)
        ++failures;
      if (call.backward(&options) != IOATTN_OK) ++failures;
      const std::vector<T> got = call.outputs();
      auto& mine = outputs[static_cast<std::size_t>(caller)];
      mine.insert(mine.end(), got.begin(), got.end());
    }
  });
  EXPECT_EQ(failures, 0);
  std::vector<T> joined;
  for (const std::vector<T>& one : outputs) joined.insert(joined.end(), one.begin(), one.end());
  return joined;
}

template <class T>
std::vector<T> results_in_turn(int rounds) {
  std::vector<T> joined;
  const auto all = calls<T>();
  for (int caller = 0; caller < callers; ++caller) {
    LayerCall<T>& call = *all[static_cast<std::size_t>(caller)];
    for (int round = 0; round < rounds; ++round) {
      const ioattn_options options = with_schedule(schedule_of(caller, round));
      call.reset();
      EXPECT_EQ(call.forward(has_forward_pass(options.schedule) ? &options : nullptr), IOATTN_OK);
      EXPECT_EQ(call.backward(&options), IOATTN_OK);
      call.expect_forward();
      call.expect_backward();
      const std::vector<T> got = call.outputs();
      joined.insert(joined.end(), got.begin(), got.end());
    }
  }
  return joined;
}

TEST(Concurrency, FirstCallsOfTheProcess) {
  const std::vector<float> at_once = results_at_once<float>(1);
  EXPECT_TRUE(same_bits(at_once, results_in_turn<float>(1)));
}

TEST(Concurrency, ManyCalls) {
  EXPECT_TRUE(same_bits(results_at_once<double>(3), results_in_turn<double>(3)));
}

// All read the same inputs, which a call must not write to, not even for a moment.
TEST(Concurrency, SharedInputs) {
  LayerCall<float> call({300, 200, 32, 32, Ties::keys_values}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const std::vector<float> expected = call.dx.dense();
  std::vector<std::vector<float>> dx(callers, std::vector<float>(32 * 32));
  std::atomic<int> failures{0};
  on_every_caller([&](int caller) {
    const ioattn_status status =
        backward_dx(&call.problem, nullptr, call.d_o.data(), 0, call.o.data(), 0, call.lse.data(),
                    dx[static_cast<std::size_t>(caller)].data(), 0);
    if (status != IOATTN_OK) ++failures;
  });
  EXPECT_EQ(failures, 0);
  for (const std::vector<float>& one : dx) EXPECT_TRUE(same_bits(one, expected));
}

TEST(Concurrency, EveryThreadHasItsOwnMessage) {
  std::atomic<int> wrong{0};
  on_every_caller([&](int caller) {
    LayerCall<float> call({4, 4, 4, 4, Ties::none}, 0);
    const std::string schedule = "schedule-" + std::to_string(caller) + "-";
    for (int round = 0; round < 100; ++round) {
      const ioattn_options options = with_schedule(schedule.c_str());
      if (call.forward(&options) != IOATTN_INVALID_ARGUMENT) ++wrong;
      if (std::string(ioattn_last_error()).find(schedule) == std::string::npos) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ioattn_test
