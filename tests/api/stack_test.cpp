// How much of its thread's stack a call takes, as the header says: threads with small stacks call,
// too. Each call has a thread with a stack of its own, painted before and looked at behind it.

#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>

#include "api/isa_variable.hpp"
#include "api/options.hpp"
#include "api/plan_call.hpp"
#include "reference/sanitizer.hpp"
#include "schedule_names.hpp"

namespace ioattn_test {
namespace {

constexpr std::size_t most = 64 * 1024;

class PaintedStack {
 public:
  // Bytes below the frame that calls.
  std::size_t used_by(const std::function<ioattn_status()>& call, ioattn_status* status) {
    std::memset(bytes(), pattern, size);
    Thread in = {&call, IOATTN_INTERNAL, nullptr};
    pthread_attr_t attributes;
    EXPECT_EQ(pthread_attr_init(&attributes), 0);
    EXPECT_EQ(pthread_attr_setstack(&attributes, bytes(), size), 0);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, &attributes, run, &in), 0);
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
    *status = in.status;
    const unsigned char* lowest = bytes();
    while (*lowest == pattern) ++lowest;
    EXPECT_GT(lowest, bytes()) << "all of the stack";
    return static_cast<std::size_t>(in.frame - lowest);
  }

 private:
  struct Thread {
    const std::function<ioattn_status()>* call;
    ioattn_status status;
    const unsigned char* frame;
  };
  static void* run(void* argument) {
    auto* const in = static_cast<Thread*>(argument);
    in->frame = static_cast<const unsigned char*>(__builtin_frame_address(0));
    in->status = (*in->call)();
    return nullptr;
  }
  unsigned char* bytes() { return memory_->bytes; }

  static constexpr unsigned char pattern = 0xb7;
  static constexpr std::size_t size = 1 << 20;
  struct alignas(4096) Memory {
    unsigned char bytes[size];
  };
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
};

class Stack : public IsaVariable {
 protected:
  void SetUp() override {
#if IOATTN_SANITIZER_OWNS_MALLOC || !defined(__OPTIMIZE__)
    GTEST_SKIP() << "frames are larger";
#endif
  }

  // Its status.
  ioattn_status hold(const std::string& name, const std::function<ioattn_status()>& call) {
    ioattn_status status = IOATTN_INTERNAL;
    const std::size_t used = stack_.used_by(call, &status);
    EXPECT_LE(used, most) << name;
    if (used > largest_) {
      largest_ = used;
      largest_name_ = name;
    }
    done_ += status == IOATTN_OK;
    return status;
  }
  void hold_done(const std::string& name, const std::function<ioattn_status()>& call) {
    EXPECT_EQ(hold(name, call), IOATTN_OK) << name << ": " << ioattn_last_error();
  }

  std::size_t largest_ = 0;
  std::string largest_name_;
  int done_ = 0;

 private:
  PaintedStack stack_;
};

ioattn_options alone(const char* schedule = nullptr) {
  ioattn_options options = with_threads(1);
  options.schedule = schedule;
  return options;
}

// Zeros of any type to read, and memory to write to.
class Memory {
 public:
  void* next(std::int64_t elements) {
    arrays_.emplace_back(static_cast<std::size_t>(elements));
    return arrays_.back().data();
  }

 private:
  std::vector<std::vector<double>> arrays_;
};

struct LayerOfZeros {
  LayerOfZeros(ioattn_dtype dtype, std::int64_t n, std::int64_t m, std::int64_t d,
               std::int64_t dv) {
    problem.struct_size = sizeof problem;
    problem.n = n, problem.m = m, problem.d = d, problem.dv = dv;
    problem.dtype = dtype;
    problem.a1 = memory.next(n * d);
    problem.a2 = memory.next(m * d);
    problem.a3 = memory.next(m * d);
    problem.x = memory.next(d * d);
    problem.y = memory.next(d * dv);
    d_o = memory.next(n * dv);
    o = memory.next(n * dv);
    lse = memory.next(n);
    dx_alone.struct_size = all.struct_size = sizeof all;
    dx_alone.dx = all.dx = memory.next(d * d);
    all.dy = memory.next(d * dv);
    all.da1 = memory.next(n * d);
    all.da2 = memory.next(m * d);
    all.da3 = memory.next(m * d);
  }
  ioattn_status forward(const ioattn_options& options) {
    return ioattn_layer_forward(&problem, &options, o, 0, lse);
  }
  ioattn_status backward(const ioattn_options& options, const ioattn_layer_gradients& of) {
    return ioattn_layer_backward(&problem, &options, d_o, 0, nullptr, 0, nullptr, &of);
  }

  Memory memory;
  ioattn_layer_problem problem = {};
  ioattn_layer_gradients dx_alone = {}, all = {};
  void *d_o, *o, *lse;
};

struct SdpaOfZeros {
  SdpaOfZeros(ioattn_dtype dtype, std::int64_t n, std::int64_t m, std::int64_t d, std::int64_t dv,
              bool with_bias) {
    problem.struct_size = sizeof problem;
    problem.batch = 1;
    problem.heads = 2, problem.kv_heads = 1;
    problem.n = n, problem.m = m, problem.d = d, problem.dv = dv;
    problem.dtype = dtype;
    problem.q = memory.next(2 * n * d);
    problem.k = memory.next(m * d);
    problem.v = memory.next(m * dv);
    if (with_bias) {
      problem.bias = memory.next(n * m);
      problem.bias_batch = problem.bias_heads = 1;
    } else {
      problem.mask = IOATTN_MASK_CAUSAL_BOTTOM_RIGHT;
    }
    d_o = memory.next(2 * n * dv);
    o = memory.next(2 * n * dv);
    lse = memory.next(2 * n);
    gradients.struct_size = sizeof gradients;
    gradients.dq = memory.next(2 * n * d);
    gradients.dk = memory.next(m * d);
    gradients.dv = memory.next(m * dv);
    if (with_bias) gradients.dbias = memory.next(n * m);
  }

  Memory memory;
  ioattn_sdpa_problem problem = {};
  ioattn_sdpa_gradients gradients = {};
  void *d_o, *o, *lse;
};

constexpr ioattn_dtype dtypes[] = {IOATTN_F32, IOATTN_F64, IOATTN_BF16, IOATTN_F16};

// The first test: the machine and files of wisdom are looked at by the first call of the process.
TEST_F(Stack, OfTheFirstCall) {
  LayerOfZeros layer(IOATTN_F32, 40, 30, 12, 9);
  const ioattn_options options = alone();
  hold_done("first", [&] { return layer.forward(options); });
  std::cout << largest_ << " bytes\n";
}

TEST_F(Stack, OfEverySchedule) {
  for_each_isa([&] {
    const std::string isa = std::getenv("IOATTN_ISA");
    for (const ioattn_dtype dtype : dtypes) {
      LayerOfZeros layer(dtype, 150, 130, 70, 40), deep(dtype, 70, 60, 600, 40);
      for (LayerOfZeros* const call : {&layer, &deep}) {
        const std::string name =
            isa + " dtype " + std::to_string(dtype) + " d " + std::to_string(call->problem.d) + " ";
        for (const char* schedule : and_auto(all_schedules)) {
          ioattn_options options = alone(schedule);
          if (call == &deep) options.fast_memory_words = 1 << 22;  // some keep X, or all
          const bool is_auto = std::string(schedule) == "auto";
          // In 16 bits most are refused, which takes stack, too.
          const bool runs = is_auto || dtype == IOATTN_F32 || dtype == IOATTN_F64;
          const ioattn_status forward =
              hold(name + schedule, [&] { return call->forward(options); });
          const ioattn_status backward = hold(
              name + schedule + " dX", [&] { return call->backward(options, call->dx_alone); });
          if (runs && has_forward_pass(schedule)) {
            EXPECT_EQ(forward, IOATTN_OK) << name << schedule;
          }
          if (runs && (is_auto || is_one_of(backward_schedules, schedule))) {
            EXPECT_EQ(backward, IOATTN_OK) << name << schedule;
          }
          hold(name + schedule + " all", [&] { return call->backward(options, call->all); });
        }
      }
    }
  });
  EXPECT_GT(done_, 100);
  std::cout << largest_ << " bytes: " << largest_name_ << "\n";
}

TEST_F(Stack, OfSdpa) {
  for_each_isa([&] {
    const std::string isa = std::getenv("IOATTN_ISA");
    for (const ioattn_dtype dtype : dtypes)
      for (const bool with_bias : {false, true})
        for (const std::int64_t n : {1, 200})
          for (const std::int64_t d : {40, 600}) {
            SdpaOfZeros call(dtype, n, 150, d, 30, with_bias);
            const ioattn_options options = alone();
            const std::string name = isa + " dtype " + std::to_string(dtype) + " n " +
                                     std::to_string(n) + " d " + std::to_string(d);
            hold_done(name + " forward", [&] {
              return ioattn_sdpa_forward(&call.problem, &options, call.o, nullptr, call.lse,
                                         nullptr);
            });
            hold_done(name + " backward", [&] {
              return ioattn_sdpa_backward(&call.problem, &options, call.d_o, nullptr, call.o,
                                          nullptr, call.lse, nullptr, &call.gradients);
            });
          }
  });
  EXPECT_GT(done_, 50);
  std::cout << largest_ << " bytes: " << largest_name_ << "\n";
}

TEST_F(Stack, OfPlansAndWisdom) {
  SdpaOfZeros sdpa(IOATTN_F32, 200, 150, 40, 30, false);
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = 90, shape.m = 80, shape.d = 30, shape.dv = 20;
  char text[4096];
  for (const ioattn_rigor rigor : {IOATTN_ESTIMATE, IOATTN_MEASURE}) {
    ioattn_options options = alone();
    options.rigor = rigor;
    options.time_limit_seconds = 0.05;
    for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD})
      for (const bool of_layer : {false, true}) {
        ioattn_plan* plan = nullptr;
        hold_done("plan_create", [&] {
          return of_layer ? ioattn_layer_plan_create(pass, &shape, nullptr, &options, &plan)
                          : ioattn_sdpa_plan_create(pass, &sdpa.problem, &sdpa.gradients, &options,
                                                    &plan);
        });
        hold("describe", [&] { return ioattn_plan_describe(plan, text, sizeof text, nullptr); });
        hold_done("text", [&] { return ioattn_plan_text(plan, text, sizeof text, nullptr); });
        ioattn_plan* parsed = nullptr;
        hold_done("parse", [&] {
          return of_layer ? ioattn_layer_plan_parse(pass, &shape, nullptr, nullptr, text, &parsed)
                          : ioattn_sdpa_plan_parse(pass, &sdpa.problem, &sdpa.gradients, nullptr,
                                                   text, &parsed);
        });
        ioattn_plan_destroy(parsed);
        ioattn_plan_destroy(plan);
      }
  }
  const std::string learned = text_of_wisdom(ioattn_wisdom_export_text);
  hold("import", [&] { return ioattn_wisdom_import_text(learned.c_str()); });
  size_t needed = 0;
  hold_done("explain", [&] { return ioattn_wisdom_explain(nullptr, 0, &needed); });
  hold_done("forget", [&] { return ioattn_wisdom_forget(); });
  ioattn_merge_shape merged = {};
  merged.struct_size = sizeof merged;
  merged.batch = 1, merged.heads = 2, merged.n = 200, merged.dv = 30;
  const ioattn_partial part = {sdpa.gradients.dq, sdpa.lse, {}, {}};
  const ioattn_options options = alone();
  hold_done("merge", [&] {
    return ioattn_merge(&merged, &options, &part, 1, sdpa.o, nullptr, sdpa.d_o, nullptr);
  });
  std::cout << largest_ << " bytes: " << largest_name_ << "\n";
}

}  // namespace
}  // namespace ioattn_test
