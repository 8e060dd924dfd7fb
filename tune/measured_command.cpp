#include "tune/measured_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tune/command_error.hpp"
#include "tune/counter_report.hpp"
#include "tune/table.hpp"

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

// In the child: waits for a byte through the gate, then becomes the command. Nothing here
// allocates.
[[noreturn]] void become(char* const* arguments, Pipe* gate, const Pipe& failure,
                         const IgnoredInterrupts& interrupts) {
  interrupts.restore();
  gate->close_end(1);
  char go = 0;
  if (read_all(gate->end(0), &go, 1) == 1) {
    execvp(arguments[0], arguments);
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(failure.end(1), &error, sizeof error);
  }
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw RunError(fmt::format("lost the command: {}", strerror(errno)));
  }
  constexpr int signalled = 128;
  return WIFSIGNALED(status) ? signalled + WTERMSIG(status) : WEXITSTATUS(status);
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
  Pipe gate, failure;
  const IgnoredInterrupts interrupts;
  const pid_t child = fork();
  if (child < 0) throw RunError(fmt::format("no new process: {}", strerror(errno)));
  if (child == 0) become(arguments.data(), &gate, failure, interrupts);
  failure.close_end(1);

  MeasuredCommand run;
  instruments::CommandCounters counters(setup->system(), setup->events(), setup->surroundings(),
                                        child);
  const auto start = std::chrono::steady_clock::now();
  const bool opened = write(gate.end(1), "x", 1) == 1;
  gate.close_end(1);
  int error = opened ? 0 : EPIPE;
  if (read_all(failure.end(0), &error, sizeof error) == sizeof error || !opened) {
    wait_for(child);
    throw UsageError(fmt::format("cannot run {}: {}", command.front(), strerror(error)));
  }
  run.exit_status = wait_for(child);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.values = counters.read();
  return run;
}

std::string to_text(const MeasuredCommand& run, const CounterSetup& setup) {
  std::string text = fmt::format("{}, exit status {}; events of {}, user-space code\n",
                                 seconds_text(run.seconds), run.exit_status, setup.file().cpu);
  text += events_text(run.values) + traffic_text(quantities_of(run, setup));
  for (const instruments::CounterValue& value : run.values) {
    if (is_generic(value.event.id))
      text += fmt::format("{}: {}\n", value.event.name, value.event.text);
  }
  return text;
}

Json to_json(const MeasuredCommand& run, const std::vector<std::string>& command,
             const CounterSetup& setup) {
  Json json;
  json["command"] = command;
  json["exit_status"] = run.exit_status;
  json["seconds"] = run.seconds;
  json["cpu"] = setup.file().cpu;
  json["events"] = events_json(run.values);
  json["traffic"] = traffic_json(quantities_of(run, setup));
  return json;
}

}  // namespace ioattn::tune
