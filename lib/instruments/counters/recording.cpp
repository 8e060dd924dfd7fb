#include "instruments/counters/recording.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "machine/text.hpp"

namespace ioattn::instruments {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char digits[17];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, 16);
  return "0x" + std::string(digits, end);
}

std::string call_of(const OpenRequest& request) {
  return "open " + std::to_string(request.event.type) + " " + hexadecimal(request.event.config) +
         " " + std::to_string(request.thread) + " " + std::to_string(request.leader) +
         (request.with_children ? " children =" : " group =");
}

std::string call_of(int leader, bool on) {
  return (on ? "enable " : "disable ") + std::to_string(leader) + " =";
}

std::string read_call_of(int leader) { return "read " + std::to_string(leader) + " ="; }

// The next number of a line.
template <class T>
bool take(std::string_view* text, T* value) {
  *text = machine::trimmed(*text);
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()));
  return text->empty() || text->front() == ' ';
}

}  // namespace

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

bool ReplayedPerf::is_finished() {
  std::string_view rest = text_;
  rest.remove_prefix(position_);
  return std::all_of(rest.begin(), rest.end(), [](char c) { return c == '\n' || c == ' '; });
}

bool ReplayedPerf::answer_to(const std::string& call, std::string_view* answer) {
  std::string_view line;
  do {  // lines that begin with # are for readers
    std::string_view rest = text_;
    rest.remove_prefix(position_);
    line = rest.substr(0, std::min(rest.find('\n'), rest.size()));
    position_ += std::min(line.size() + 1, rest.size());
  } while (position_ < text_.size() && (line.empty() || line.front() == '#'));
  if (line.substr(0, call.size()) != call) {
    if (complaint_.empty()) {
      complaint_ = "\"" + call + "\" was called, the recording has \"" + std::string(line) + "\"";
    }
    return false;
  }
  *answer = line.substr(call.size());
  return true;
}

int ReplayedPerf::status_of(const std::string& call) {
  std::string_view answer;
  int status = 0;
  return answer_to(call, &answer) && take(&answer, &status) ? status : -EPROTO;
}

std::vector<int> ReplayedPerf::threads() {
  std::vector<int> ids;
  std::string_view answer;
  if (!answer_to("threads", &answer)) return ids;
  for (int id = 0; take(&answer, &id);) ids.push_back(id);
  return ids;
}

int ReplayedPerf::open(const OpenRequest& request) { return status_of(call_of(request)); }

int ReplayedPerf::enable(int leader, bool on) { return status_of(call_of(leader, on)); }

int ReplayedPerf::read(int leader, std::vector<std::uint64_t>* words) {
  std::string_view answer;
  if (!answer_to(read_call_of(leader), &answer)) return -EPROTO;
  answer = machine::trimmed(answer);
  int error = 0;
  if (!answer.empty() && answer.front() == '-') return take(&answer, &error) ? error : -EPROTO;
  for (std::uint64_t& word : *words) {
    if (!take(&answer, &word)) return -EPROTO;
  }
  return 0;
}

}  // namespace ioattn::instruments
