#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "instruments/counters/perf_system.hpp"

namespace ioattn::instruments {

// Answers as recorded, in the recorded order. A call that differs from the next line is answered
// with -EPROTO, and complaint() says so.
class ReplayedPerf final : public PerfSystem {
 public:
  explicit ReplayedPerf(std::string text) : text_(std::move(text)) {}

  std::vector<int> threads() override;
  int open(const OpenRequest& request) override;
  int enable(int leader, bool on) override;
  int read(int leader, std::vector<std::uint64_t>* words) override;
  void close(int) override {}

  bool is_finished();
  const std::string& complaint() const { return complaint_; }

 private:
  // What the next line says behind `call`; false and a complaint if it is about another call.
  bool answer_to(const std::string& call, std::string_view* answer);
  int status_of(const std::string& call);

  std::string text_;
  std::size_t position_ = 0;
  std::string complaint_;
};

}  // namespace ioattn::instruments
