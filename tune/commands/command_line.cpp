#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "ioattn/ioattn.h"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"

namespace ioattn::tune {
namespace {

int report(int exit_code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::string printed;
  for (const char c : message) {  // what a file holds may move a terminal's cursor
    const auto byte = static_cast<unsigned char>(c);
    printed += byte < ' ' || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  std::fprintf(stderr, "ioattn: %s\n", printed.c_str());
  return exit_code;
}

std::string no_stdout(int error) {
  return "cannot write to stdout" +
         (error == 0 ? "" : ": " + std::generic_category().message(error));
}

// CLI11 misses a subcommand, or an option, before it looks at what stands in its place, and tells
// of words that nothing takes in reverse.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  const std::string see = " (see " + path + " --help)";
  const std::vector<std::string> unknown = command->remaining();
  const bool lacks_subcommand = command->get_require_subcommand_min() > 0;
  const bool are_surplus = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool is_option = !unknown.empty() && unknown.front()[0] == '-';
  if (unknown.empty() || !(lacks_subcommand || are_surplus || is_option)) return error.what() + see;
  const std::string& first = unknown.front();
  const char* kind = is_option ? "option" : lacks_subcommand ? "subcommand" : "argument";
  return std::string("there is no ") + kind + " \"" + first + "\"" +
         (command == &app ? "" : " of " + command->get_name()) + see;
}

// What `measure` runs. CLI11 would split a word like [a,b] at its commas.
std::vector<std::string> cut_off_command(std::vector<std::string>* words) {
  const auto mark = std::find(words->begin(), words->end(), "--");
  if (mark == words->end() || words->front() != "measure") return {};
  std::vector<std::string> command(mark + 1, words->end());
  words->erase(mark, words->end());
  return command;
}

// `help plan` is `plan --help`.
void take_help(const CLI::App& app, std::vector<std::string>* words) {
  if (words->empty() || words->front() != "help") return;
  words->erase(words->begin());
  const CLI::App* command = &app;
  for (const std::string& name : *words) {
    const std::vector<const CLI::App*> found =
        command->get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
    if (found.empty())
      throw UsageError("there is no subcommand \"" + name + "\" (see ioattn --help)");
    command = found.front();
  }
  words->push_back("--help");
}

// An empty name would count as an option that was not given.
void refuse_empty_names(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string type = option->get_type_name();
    const bool is_directory = type == "DIR";
    if (!is_directory && type != "FILE" && type != "FILES") continue;
    option->check([is_directory](const std::string& name) {
      if (!name.empty()) return std::string();
      return std::string("\"\" is no ") + (is_directory ? "directory" : "file");
    });
  }
  for (CLI::App* command : app->get_subcommands({})) refuse_empty_names(command);
}

// `machine` has them among its notes.
void tell_ignored_overrides(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "machine") return;
  bool has_any = false;
  for (const char* name : {"IOATTN_L1", "IOATTN_L2", "IOATTN_L3", "HWLOC_XMLFILE"})
    has_any = has_any || std::getenv(name) != nullptr;
  if (!has_any) return;
  for (const std::string& note : machine::this_machine().notes) {
    const bool is_of_variable = note.rfind("IOATTN_", 0) == 0 || note.rfind("HWLOC_", 0) == 0;
    if (is_of_variable) report(0, "note: " + note);
  }
}

int parse_and_run(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  CLI::App app{
      "Exact softmax attention on CPUs, I/O-optimal for their caches. Words are elements of the\n"
      "problem's dtype; M is the number of words of fast memory that one thread may use.\n"
      "Exit codes: 0 done, 1 failed while doing, 2 wrong command line or input file, 130 "
      "interrupted.",
      "ioattn"};
  app.set_version_flag("--version", std::string("ioattn ") + ioattn_version());
  app.require_subcommand(1);
  add_machine_command(&app);
  add_bounds_command(&app);
  add_plan_command(&app);
  add_regimes_command(&app);
  add_figure_command(&app);
  add_grad_command(&app);
  add_sdpa_command(&app);
  add_tune_command(&app);
  add_wisdom_command(&app);
  add_demo_command(&app);
  add_measure_command(&app, cut_off_command(&words));
  add_watched_command(&app);
  refuse_empty_names(&app);
  take_help(app, &words);
  tell_ignored_overrides(words);
  try {
    std::reverse(words.begin(), words.end());  // the order that CLI11 takes
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(exit_usage, what_is_wrong(app, error));
  }
  return 0;
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  int exit_code = 0;
  try {
    exit_code = parse_and_run(argc, argv);
  } catch (const CommandError& error) {
    exit_code = report(error.exit_code(), error.what());
  } catch (const CommandEnded& ended) {
    exit_code = ended.exit_status();
  } catch (const std::bad_alloc&) {
    exit_code = report(exit_failed, "out of memory");
  } catch (const std::system_error& error) {
    // fmt does not know what it prints to; nothing else here writes to a std::FILE by it.
    if (std::ferror(stdout) != 0) return report(exit_failed, no_stdout(error.code().value()));
    exit_code = report(exit_failed, error.what());
  } catch (const std::exception& error) {
    exit_code = report(exit_failed, error.what());
  }
  // --help and --version are printed by CLI11, to std::cout.
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    const int failed = report(exit_failed, no_stdout(errno));
    if (exit_code == 0) exit_code = failed;
  }
  return exit_code;
}

}  // namespace ioattn::tune
