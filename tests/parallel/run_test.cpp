#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "parallel/parallel.hpp"

namespace ioattn::parallel {
namespace {

constexpr int thread_counts[] = {1, 2, 3, 5, 8};

TEST(Run, CallsTheBodyOnceOnEveryWorker) {
  for (const int threads : thread_counts) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
    std::atomic<int> strangers{0};
    auto body = [&](int worker) {
      if (worker < 0 || worker >= threads) {
        ++strangers;
      } else {
        ++calls[static_cast<std::size_t>(worker)];
      }
    };
    run(threads, body);
    EXPECT_EQ(strangers, 0);
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1) << "of " << threads;
  }
}

TEST(Run, WorkersAreDifferentThreads) {
  constexpr int threads = 3;
  // Each worker waits for all: one thread that ran them one after another would wait in vain.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<int> arrived{0}, met_all{0};
  auto body = [&](int) {
    ++arrived;
    while (arrived < threads && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    met_all += arrived == threads;
  };
  run(threads, body);
  EXPECT_EQ(met_all, threads);
}

TEST(Run, OfLessThanOneIsSerial) {
  for (const int threads : {0, -3}) {
    int calls = 0;
    auto body = [&](int worker) { calls += worker == 0 ? 1 : 100; };
    run(threads, body);
    EXPECT_EQ(calls, 1);
  }
}

TEST(Run, WakesNobodyForOneItem) {
  for (const int threads : thread_counts) {
    for (const ioattn::index_t items : {0, 1, 2, 4, 1000}) {
      std::atomic<int> workers{0};
      auto body = [&](int) { ++workers; };
      run(threads, items, body);
      EXPECT_EQ(workers, items > 1 ? threads : 1) << threads << " threads, " << items << " items";
    }
  }
}

// Also run with OMP_MAX_ACTIVE_LEVELS=4, where OpenMP itself would make more threads.
TEST(Run, InsideAnotherRunIsSerial) {
  std::atomic<int> outer{0}, inner{0}, strangers{0};
  auto body = [&](int) {
    ++outer;
    const std::thread::id here = std::this_thread::get_id();
    auto nested = [&](int worker) {
      ++inner;
      if (worker != 0 || std::this_thread::get_id() != here) ++strangers;
    };
    run(3, nested);
  };
  run(2, body);
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 2);
  EXPECT_EQ(strangers, 0);
}

TEST(Run, FromSeveralThreadsAtOnce) {
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  callers.reserve(3);
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      auto body = [&](int) { ++calls; };
      for (int round = 0; round < 20; ++round) run(2, body);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls, 3 * 20 * 2);
}

TEST(Dispenser, HandsOutEachIndexOnce) {
  for (const int threads : thread_counts) {
    constexpr index_t count = 10'000;
    std::vector<std::atomic<int>> taken(count);
    std::atomic<std::int64_t> sum{0};
    std::atomic<bool> ascending{true};
    Dispenser dispenser;
    auto body = [&](int) {
      std::int64_t share = 0;
      index_t last = -1;
      for (index_t i = dispenser.take(); i < count; i = dispenser.take()) {
        if (i <= last) ascending = false;
        last = i;
        share += i;
        ++taken[static_cast<std::size_t>(i)];
      }
      sum += share;
    };
    run(threads, body);
    EXPECT_EQ(sum, count * (count - 1) / 2);
    EXPECT_TRUE(ascending);
    for (const std::atomic<int>& times : taken) ASSERT_EQ(times, 1);
    EXPECT_GE(dispenser.take(), count);
  }
}

// The sequence is not atomic on purpose: the gate alone orders and publishes it.
TEST(OrderedGate, LetsTurnsPassInOrder) {
  for (const int threads : thread_counts) {
    for (int round = 0; round < 200; ++round) {
      constexpr index_t count = 40;
      std::vector<index_t> sequence;
      Dispenser dispenser;
      OrderedGate gate;
      auto body = [&](int worker) {
        for (index_t i = dispenser.take(); i < count; i = dispenser.take()) {
          if ((i + worker + round) % 7 == 0) std::this_thread::yield();  // finish out of order
          gate.wait_for(i);
          sequence.push_back(i);
          gate.pass(i);
        }
      };
      run(threads, body);
      ASSERT_EQ(sequence.size(), static_cast<std::size_t>(count));
      for (index_t i = 0; i < count; ++i) ASSERT_EQ(sequence[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(OrderedGate, MakesEachWaitForTheOneBefore) {
  OrderedGate gate;
  std::atomic<bool> started{false}, second_passed{false};
  std::thread second([&] {
    started = true;
    gate.wait_for(1);
    second_passed = true;
  });
  gate.wait_for(0);
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(second_passed);
  gate.pass(0);
  second.join();
  EXPECT_TRUE(second_passed);
}

}  // namespace
}  // namespace ioattn::parallel
