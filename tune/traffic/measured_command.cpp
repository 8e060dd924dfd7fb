#include "tune/traffic/measured_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tune/command_error.hpp"
#include "tune/text/table.hpp"
#include "tune/traffic/counter_report.hpp"

namespace ioattn::tune {
namespace {

// Both ends are closed by exec.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) throw RunError(fmt::format("no pipe: {}", strerror(errno)));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int end(int which) const { return ends_[which]; }
  void close_end(int which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

// As for system(3): the terminal's signals reach the command, and this process survives to report.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &interrupt_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~IgnoredInterrupts() { restore(); }
  void restore() const {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

 private:
  struct sigaction interrupt_ = {}, quit_ = {};
};

ssize_t read_all(int descriptor, void* memory, std::size_t bytes) {
  ssize_t got = 0;
  do {
    got = read(descriptor, memory, bytes);
  } while (got < 0 && errno == EINTR);
  return got;
}

constexpr std::uint64_t nanoseconds_of(long seconds, long nanoseconds) {
  return static_cast<std::uint64_t>(seconds) * 1'000'000'000 +
         static_cast<std::uint64_t>(nanoseconds);
}

// In the child: waits for a byte through the gate, says what CPU time it took so far and becomes
// the command, or says why not. Nothing here allocates.
[[noreturn]] void become(char* const* arguments, Pipe* gate, const Pipe& news,
                         const IgnoredInterrupts& interrupts) {
  interrupts.restore();
  gate->close_end(1);
  char go = 0;
  if (read_all(gate->end(0), &go, 1) == 1) {
    timespec cpu = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    const std::uint64_t before = nanoseconds_of(cpu.tv_sec, cpu.tv_nsec);
    [[maybe_unused]] ssize_t told = write(news.end(1), &before, sizeof before);
    execvp(arguments[0], arguments);
    const int error = errno;
    told = write(news.end(1), &error, sizeof error);
  }
  _exit(127);
}

struct Ended {
  int status = 0;            // of exit, or 128 + signal
  std::uint64_t cpu_ns = 0;  // of it and its children
};

Ended wait_for(pid_t child) {
  int status = 0;
  rusage usage = {};
  while (wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) throw RunError(fmt::format("lost the command: {}", strerror(errno)));
  }
  constexpr int signalled = 128;
  constexpr long ns_of_us = 1000;
  return {WIFSIGNALED(status) ? signalled + WTERMSIG(status) : WEXITSTATUS(status),
          nanoseconds_of(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec,
                         ns_of_us * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec))};
}

// The file's own events, without those named beside them.
std::vector<instruments::QuantityValue> quantities_of(const MeasuredCommand& run,
                                                      const CounterSetup& setup) {
  return evaluate(setup.file(), run.values);
}

}  // namespace

MeasuredCommand run_measured(const std::vector<std::string>& command, CounterSetup* setup) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::fflush(nullptr);
  Pipe gate, news;
  const IgnoredInterrupts interrupts;
  const pid_t child = fork();
  if (child < 0) throw RunError(fmt::format("no new process: {}", strerror(errno)));
  if (child == 0) become(arguments.data(), &gate, news, interrupts);
  news.close_end(1);

  MeasuredCommand run;
  instruments::CommandCounters counters(setup->system(), setup->events(), setup->surroundings(),
                                        child);
  const auto start = std::chrono::steady_clock::now();
  const bool opened = write(gate.end(1), "x", 1) == 1;
  gate.close_end(1);
  std::uint64_t before_exec = 0;
  int error = opened ? 0 : EPIPE;
  const bool told = read_all(news.end(0), &before_exec, sizeof before_exec) == sizeof before_exec;
  if (!opened || (told && read_all(news.end(0), &error, sizeof error) == sizeof error)) {
    wait_for(child);
    // As of shells and env(1), so that it is no exit code of the command's.
    const int exit_code = error == ENOENT ? 127 : 126;
    throw CommandError(exit_code,
                       fmt::format("cannot run {}: {}", command.front(), strerror(error)));
  }
  const Ended ended = wait_for(child);
  run.exit_status = ended.status;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.values = counters.read(ended.cpu_ns - std::min(ended.cpu_ns, before_exec));
  return run;
}

std::string to_text(const MeasuredCommand& run, const CounterSetup& setup) {
  return fmt::format("{}, exit status {}; events of {}, user-space code\n",
                     seconds_text(run.seconds), run.exit_status, setup.file().cpu) +
         note_text(setup.note()) + events_text(run.values) +
         traffic_text(quantities_of(run, setup)) + meanings_text(run.values);
}

Json to_json(const MeasuredCommand& run, const std::vector<std::string>& command,
             const CounterSetup& setup) {
  Json json;
  json["command"] = command;
  json["exit_status"] = run.exit_status;
  json["seconds"] = run.seconds;
  json["cpu"] = setup.file().cpu;
  json["events_note"] = note_json(setup.note());
  json["events"] = events_json(run.values);
  json["traffic"] = traffic_json(quantities_of(run, setup));
  return json;
}

}  // namespace ioattn::tune
