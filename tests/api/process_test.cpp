// What a process does with its threads: it pins, binds and cancels them.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.h"
#include "machine/cgroup.hpp"
#include "machine/machine.hpp"

namespace ioattn_test {
namespace {

cpu_set_t affinity_of_caller() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

void pin_to_one_cpu() {
  const cpu_set_t allowed = affinity_of_caller();
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

int32_t usable(int cpus) {
  return ioattn::machine::usable_threads(cpus, ioattn::machine::this_machine().cpu_quota);
}

// The first to ask is a thread with one CPU.
TEST(Process, ThreadsAreThoseOfAffinityAtTheCall) {
  if (std::getenv("OMP_PROC_BIND") != nullptr) GTEST_SKIP() << "they are bound";
  std::thread([] {
    pin_to_one_cpu();
    EXPECT_EQ(ioattn_machine_threads(), 1);
  }).join();
  const cpu_set_t all = affinity_of_caller();
  EXPECT_EQ(ioattn_machine_threads(), usable(CPU_COUNT(&all)));
}

// Where OpenMP's runtime binds the main thread to one CPU before anything else runs, in a process
// of its own.
TEST(Process, ThreadsAreThoseOfAllPlacesWhereTheyAreBound) {
  const char* const cpus = std::getenv("IOATTN_TEST_CPUS");
  if (cpus != nullptr) {
    EXPECT_EQ(ioattn_machine_threads(), usable(std::atoi(cpus)));
    EXPECT_EQ(ioattn::machine::this_machine().allowed_cpus, std::atoi(cpus));
    return;
  }
  if (std::getenv("OMP_PROC_BIND") != nullptr) GTEST_SKIP() << "they are bound";
  const cpu_set_t all = affinity_of_caller();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "OMP_PROC_BIND=true IOATTN_TEST_CPUS=" + std::to_string(CPU_COUNT(&all)) + " '" + self +
      "' --gtest_brief=1 --gtest_filter=Process.ThreadsAreThoseOfAllPlaces*";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

struct Cancelled {
  std::function<ioattn_status()> call;
  ioattn_status status = IOATTN_INTERNAL;
  bool went_on = false;
};

void* cancel_itself_and_call(void* argument) {
  auto* const seen = static_cast<Cancelled*>(argument);
  pthread_cancel(pthread_self());
  seen->status = seen->call();
  seen->went_on = true;
  pthread_testcancel();
  return nullptr;
}

// Unwinding through a function that does not throw would end the process.
void expect_end_behind(const char* name, std::function<ioattn_status()> call) {
  SCOPED_TRACE(name);
  Cancelled seen = {std::move(call)};
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, cancel_itself_and_call, &seen), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(seen.went_on);
  EXPECT_EQ(seen.status, IOATTN_OK);
}

// The first calls of the process read files, where a thread would end.
TEST(Process, ACancelledThreadEndsBehindTheCall) {
  expect_end_behind("threads",
                    [] { return ioattn_machine_threads() >= 1 ? IOATTN_OK : IOATTN_INTERNAL; });
  size_t needed = 0;
  expect_end_behind("export", [&] { return ioattn_wisdom_export_text(nullptr, 0, &needed); });
  EXPECT_GT(needed, 0U);

  LayerCall<float> layer({60, 50, 16, 12, Ties::none}, 1);
  expect_end_behind("layer forward", [&] { return layer.forward(); });
  expect_end_behind("layer backward", [&] { return layer.backward(); });
  layer.expect_forward();
  layer.expect_backward();

  SdpaCall<double> sdpa({1, 2, 2, 60, 50, 16, 12});
  ioattn_plan *forward = nullptr, *backward = nullptr;
  const auto create = [&](ioattn_pass pass, ioattn_plan** plan) {
    return ioattn_sdpa_plan_create(pass, &sdpa.problem, &sdpa.gradients, nullptr, plan);
  };
  expect_end_behind("plan_create", [&] { return create(IOATTN_FORWARD, &forward); });
  expect_end_behind("plan_create", [&] { return create(IOATTN_BACKWARD, &backward); });
  expect_end_behind("execute forward", [&] {
    return ioattn_sdpa_execute_forward(forward, &sdpa.problem, sdpa.o.data(), nullptr,
                                       sdpa.lse.data(), nullptr, nullptr, 0);
  });
  expect_end_behind("execute backward", [&] {
    return ioattn_sdpa_execute_backward(backward, &sdpa.problem, sdpa.d_o.data(), nullptr,
                                        sdpa.o.data(), nullptr, sdpa.lse.data(), nullptr,
                                        &sdpa.gradients, nullptr, 0);
  });
  ioattn_plan_destroy(forward);
  ioattn_plan_destroy(backward);
  sdpa.expect_forward();
  sdpa.expect_backward();

  sdpa.poison();
  expect_end_behind("sdpa forward", [&] { return sdpa.forward(); });
  expect_end_behind("sdpa backward", [&] { return sdpa.backward(); });
  sdpa.expect_forward();
  sdpa.expect_backward();

  ioattn_merge_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.batch = 1, shape.heads = 2, shape.n = 60, shape.dv = 12;
  shape.dtype = IOATTN_F64;
  ioattn_partial part = {};
  part.o = sdpa.o.data();
  part.lse = sdpa.lse.data();
  std::vector<double> o(2 * 60 * 12), lse(2 * 60);
  expect_end_behind("merge", [&] {
    return ioattn_merge(&shape, nullptr, &part, 1, o.data(), nullptr, lse.data(), nullptr);
  });
  EXPECT_EQ(lse, sdpa.lse.dense().values);

  const std::string path =
      testing::TempDir() + "ioattn_cancelled" + std::to_string(getpid()) + ".json";
  expect_end_behind("export_file", [&] { return ioattn_wisdom_export_file(path.c_str()); });
  const ioattn_status alone = ioattn_wisdom_import_file(path.c_str());  // there is nothing in it
  EXPECT_NE(alone, IOATTN_INTERNAL);
  expect_end_behind("import_file", [&] {
    return ioattn_wisdom_import_file(path.c_str()) == alone ? IOATTN_OK : IOATTN_INTERNAL;
  });
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".lock");
}

}  // namespace
}  // namespace ioattn_test
