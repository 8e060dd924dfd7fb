#include "instruments/counters/recording.hpp"

#include <charconv>

namespace ioattn::instruments {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char digits[17];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, 16);
  return "0x" + std::string(digits, end);
}

}  // namespace

std::string call_of(const OpenRequest& request) {
  return "open " + std::to_string(request.event.type) + " " + hexadecimal(request.event.config) +
         " " + std::to_string(request.thread) + " " + std::to_string(request.leader) +
         (request.with_children ? " children =" : " group =");
}

std::string call_of(int leader, bool on) {
  return (on ? "enable " : "disable ") + std::to_string(leader) + " =";
}

std::string read_call_of(int leader) { return "read " + std::to_string(leader) + " ="; }

std::vector<int> RecordingPerf::threads() {
  std::vector<int> ids = system_.threads();
  text_ += "threads";
  for (const int id : ids) text_ += " " + std::to_string(id);
  text_ += "\n";
  return ids;
}

int RecordingPerf::open(const OpenRequest& request) {
  const int result = system_.open(request);
  text_ += call_of(request) + " " + std::to_string(result) + "\n";
  return result;
}

int RecordingPerf::enable(int leader, bool on) {
  const int result = system_.enable(leader, on);
  text_ += call_of(leader, on) + " " + std::to_string(result) + "\n";
  return result;
}

int RecordingPerf::read(int leader, std::vector<std::uint64_t>* words) {
  const int result = system_.read(leader, words);
  text_ += read_call_of(leader);
  if (result < 0) {
    text_ += " " + std::to_string(result);
  } else {
    for (const std::uint64_t word : *words) text_ += " " + std::to_string(word);
  }
  text_ += "\n";
  return result;
}

}  // namespace ioattn::instruments
