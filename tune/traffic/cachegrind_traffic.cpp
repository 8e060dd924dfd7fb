#include "tune/traffic/cachegrind_traffic.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/processes/child_process.hpp"
#include "tune/text/progress_line.hpp"
#include "tune/text/table.hpp"
#include "tune/traffic/measure_options.hpp"

namespace ioattn::tune {
namespace {

using instruments::CachegrindCache;
using instruments::DataMisses;

constexpr const char* isa_variable = "IOATTN_ISA";

std::string text_of(index_t bytes, int ways, int line_bytes) {
  return fmt::format("{} bytes, {}, lines of {}", grouped(bytes),
                     ways > 0 ? fmt::format("{} ways", ways) : "ways unknown", line_bytes);
}

CachegrindTraffic::Level level_of(int level) {
  const machine::CacheLevel& cache = cache_of(level);
  const int line_bytes = cache.line_bytes > 0 ? cache.line_bytes : 64;
  CachegrindTraffic::Level result;
  result.level = level;
  result.cache = instruments::cachegrind_cache(cache.share_bytes, cache.ways, line_bytes);
  if (result.cache != CachegrindCache{cache.share_bytes, cache.ways, line_bytes}) {
    result.rounded = text_of(cache.share_bytes, cache.ways, line_bytes);
  }
  return result;
}

// Lines that begin with == or -- are Valgrind's about the process; what went wrong has neither.
std::string reason_in(const std::string& printed) {
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos && line.rfind("==", 0) != 0 &&
        line.rfind("--", 0) != 0) {
      return "Valgrind failed: " + line;
    }
  }
  return "Valgrind failed and said nothing";
}

// Misses of so many passes and of what is around them.
class Watching {
 public:
  Watching(const std::string& self, const TrafficCase& problem, const std::string& plan,
           const CachegrindTraffic& watched)
      : command_(cachegrind_command(watched.levels[0].cache, watched.levels[1].cache)),
        variables_({{isa_variable, watched.isa},
                    {"OMP_NUM_THREADS", "1"},
                    {"VALGRIND_OPTS", ""}}) {  // which could print elsewhere
    // Cachegrind's caches are what is left of the machine's in the child.
    index_t evicted = 0;
    for (const CachegrindTraffic::Level& one : watched.levels) {
      variables_.emplace_back(fmt::format("IOATTN_L{}", one.level),
                              std::to_string(cache_of(one.level).share_bytes));
      evicted = std::max(evicted, one.cache.bytes);
    }
    command_.insert(command_.end(), {self, "watched-passes", "--problem", problem.problem_text(),
                                     "--pass", name_of(problem.pass()), "--plan", plan, "--evict",
                                     std::to_string(evicted), "--passes"});
  }

  // Throws RunError if there is no place for temporary files.
  std::optional<DataMisses> operator()(int passes, std::string* reason) const {
    std::vector<std::string> arguments = command_;
    arguments.push_back(std::to_string(passes));
    const TemporaryDirectory directory;
    const ChildEnd end = run_child(arguments, directory.path(), variables_);
    if (end.error != 0) {
      *reason = end.error == ENOENT
                    ? "Valgrind is not installed: apt-get install valgrind"
                    : std::string("Valgrind does not start: ") + std::strerror(end.error);
      return std::nullopt;
    }
    const std::optional<DataMisses> misses = instruments::data_misses(end.printed);
    if (end.is_done && misses) return misses;
    *reason = end.is_done ? "Cachegrind printed no misses" : reason_in(end.printed);
    return std::nullopt;
  }

 private:
  std::vector<std::string> command_;
  std::vector<std::pair<std::string, std::string>> variables_;
};

}  // namespace

void choose_isa_of_valgrind() {
  const char* const wanted = ::getenv(isa_variable);
  if (wanted != nullptr && *wanted != '\0') return;
  if (machine::this_machine().isa.has(Isa::avx2)) ::setenv(isa_variable, name_of(Isa::avx2), 1);
}

CachegrindTraffic watch(const TrafficCase& problem, const std::string& plan) {
  const kernels::Kernels* kernels = nullptr;
  require(api::selected_kernels(&kernels));
  CachegrindTraffic watched;
  watched.isa = name_of(kernels->isa);
  watched.levels = {level_of(1), level_of(2)};
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) {
    watched.reason = "/proc/self/exe: " + error.message();
    return watched;
  }
  ProgressLine line;
  line.show("running under Valgrind");
  const Watching run(self, problem, plan, watched);
  std::optional<DataMisses> one, two;
  try {
    one = run(1, &watched.reason);
    if (one) two = run(2, &watched.reason);
  } catch (const RunError& error_of_run) {
    watched.reason = error_of_run.what();
  }
  if (!two) return watched;
  watched.levels[0].lines = static_cast<double>(two->first - one->first);
  watched.levels[1].lines = static_cast<double>(two->last - one->last);
  for (CachegrindTraffic::Level& level : watched.levels) {
    level.words =
        level.lines * level.cache.line_bytes / static_cast<double>(size_of(problem.dtype()));
  }
  return watched;
}

TrafficLine line_of(const CachegrindTraffic& watched, int level) {
  TrafficLine line;
  line.name = fmt::format("Cachegrind ({})", watched.isa);
  line.key = "cachegrind";
  line.reason = watched.reason;
  line.out.reset();
  bool found = false;
  for (const CachegrindTraffic::Level& one : watched.levels) {
    if (one.level != level) continue;
    line.in = one.words;
    found = true;
  }
  if (!found && line.reason.empty()) line.reason = "Cachegrind has two levels, here L1 and L2";
  return line;
}

std::string cachegrind_text(const CachegrindTraffic& watched, const TrafficPlan& plan) {
  const std::string title =
      fmt::format("Cachegrind ({}), plan of {} for {}", watched.isa, plan.level, plan.objective);
  if (!watched.reason.empty()) return fmt::format("{}: unavailable: {}\n", title, watched.reason);
  std::string text = title + "; fills alone, write-backs are not counted\n";
  for (const CachegrindTraffic::Level& one : watched.levels) {
    text += fmt::format(
        "  L{}: {} lines, {} words; {}{}\n", one.level, grouped(one.lines), grouped(one.words),
        text_of(one.cache.bytes, one.cache.ways, one.cache.line_bytes),
        one.rounded.empty() ? "" : fmt::format(" (as Valgrind takes it, of {})", one.rounded));
  }
  return text;
}

Json cachegrind_json(const CachegrindTraffic& watched) {
  Json json;
  json["isa"] = watched.isa;
  json["reason"] = watched.reason.empty() ? Json() : Json(watched.reason);
  json["caches"] = Json::array();
  for (const CachegrindTraffic::Level& one : watched.levels) {
    Json item;
    item["level"] = fmt::format("L{}", one.level);
    item["bytes"] = one.cache.bytes;
    item["ways"] = one.cache.ways;
    item["line_bytes"] = one.cache.line_bytes;
    item["rounded_from"] = one.rounded.empty() ? Json() : Json(one.rounded);
    item["lines"] = watched.reason.empty() ? Json(one.lines) : Json();
    item["words"] = watched.reason.empty() ? Json(one.words) : Json();
    json["caches"].push_back(item);
  }
  return json;
}

}  // namespace ioattn::tune
