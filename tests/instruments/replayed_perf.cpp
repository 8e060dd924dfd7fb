#include "instruments/replayed_perf.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "instruments/counters/recording.hpp"
#include "machine/text.hpp"

namespace ioattn::instruments {
namespace {

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
