#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ioattn/ioattn.h"

// What tests of plans have in common. Nothing of lib is included.
namespace ioattn_test {

struct Destroy {
  void operator()(ioattn_plan* plan) const { ioattn_plan_destroy(plan); }
};
using Plan = std::unique_ptr<ioattn_plan, Destroy>;

inline std::string text_of(ioattn_status (*function)(const ioattn_plan*, char*, size_t, size_t*),
                           const ioattn_plan* plan) {
  size_t needed = 0;
  EXPECT_EQ(function(plan, nullptr, 0, &needed), IOATTN_OK);
  std::vector<char> buffer(needed + 1, 'x');
  EXPECT_EQ(function(plan, buffer.data(), needed - 1, nullptr), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(buffer[0], 'x');
  EXPECT_EQ(function(plan, buffer.data(), needed, nullptr), IOATTN_OK);
  EXPECT_EQ(buffer[needed - 1], '\0');
  EXPECT_EQ(buffer[needed], 'x');
  return std::string(buffer.data());
}

inline std::string text_of(ioattn_status (*function)(const ioattn_plan*, char*, size_t, size_t*),
                           const Plan& plan) {
  return text_of(function, plan.get());
}
inline std::string text_of_wisdom(ioattn_status (*function)(char*, size_t, size_t*)) {
  size_t needed = 0;
  EXPECT_EQ(function(nullptr, 0, &needed), IOATTN_OK);
  std::string text(needed, 'x');
  EXPECT_EQ(function(text.data(), needed - 1, nullptr), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(text[0], 'x');
  EXPECT_EQ(function(text.data(), needed, nullptr), IOATTN_OK);
  text.pop_back();
  return text;
}

// A problem to plan for has no memory yet.
inline ioattn_sdpa_problem without_memory(const ioattn_sdpa_problem& problem) {
  ioattn_sdpa_problem planned = problem;
  planned.q = planned.k = planned.v = nullptr;
  for (int i = 0; i < 3; ++i) planned.q_stride[i] = planned.k_stride[i] = planned.v_stride[i] = -1;
  return planned;
}

inline Plan create(ioattn_pass pass, const ioattn_sdpa_problem& problem,
                   const ioattn_options* options,
                   const ioattn_sdpa_gradients* gradients = nullptr) {
  const ioattn_sdpa_problem planned = without_memory(problem);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(pass, &planned, gradients, options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Plan(plan);
}

inline Plan plan_of_text(ioattn_pass pass, const ioattn_sdpa_problem& problem,
                         const ioattn_options* options, const std::string& text,
                         const ioattn_sdpa_gradients* gradients = nullptr) {
  const ioattn_sdpa_problem planned = without_memory(problem);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_parse(pass, &planned, gradients, options, text.c_str(), &plan),
            IOATTN_OK)
      << ioattn_last_error() << '\n'
      << text;
  return Plan(plan);
}

// The plan of another's text, which has to be the same.
inline Plan read_back(const Plan& plan, ioattn_pass pass, const ioattn_sdpa_problem& problem,
                      const ioattn_options* options,
                      const ioattn_sdpa_gradients* gradients = nullptr) {
  const std::string text = text_of(ioattn_plan_text, plan);
  Plan read = plan_of_text(pass, problem, options, text, gradients);
  EXPECT_EQ(text_of(ioattn_plan_text, read), text);
  return read;
}

// Memory that ends where an inaccessible page would: a canary stands behind the workspace.
class Workspace {
 public:
  Workspace(const Plan& plan, std::size_t offset) : offset_(offset) {
    EXPECT_EQ(ioattn_plan_workspace_size(plan.get(), &size_), IOATTN_OK);
    bytes_.assign(offset + size_ + guard, pattern);
  }
  void* data() { return bytes_.data() + offset_; }
  std::size_t size() const { return size_; }
  bool stayed_inside() const {
    for (std::size_t i = 0; i < offset_; ++i)
      if (bytes_[i] != pattern) return false;
    for (std::size_t i = offset_ + size_; i < bytes_.size(); ++i)
      if (bytes_[i] != pattern) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 256;
  static constexpr unsigned char pattern = 0xa5;
  std::size_t offset_, size_ = 0;
  std::vector<unsigned char> bytes_;
};

}  // namespace ioattn_test
