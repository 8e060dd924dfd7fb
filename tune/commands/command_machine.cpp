#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>

#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/options/options.hpp"
#include "tune/reports/machine_report.hpp"
#include "tune/reports/probe_report.hpp"
#include "tune/text/report_json.hpp"

namespace ioattn::tune {
namespace {

struct MachineOptions {
  bool probe = false, json = false;
};

void run_machine(const MachineOptions& options) {
  const kernels::Kernels* kernels = nullptr;
  require(api::selected_kernels(&kernels));
  const machine::Machine& machine = machine::this_machine();
  std::optional<CacheProbe> probe;
  if (options.probe) probe = probe_machine(*kernels);
  if (options.json) {
    Json object = machine_json(machine);
    object["selected_isa"] = name_of(kernels->isa);
    if (probe) object["probe"] = probe_json(*probe);
    print_json(object);
    return;
  }
  fmt::print("{}", machine_text(machine, *kernels));
  if (probe) fmt::print("{}", probe_text(*probe));
}

}  // namespace

void add_machine_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "machine", "the caches, CPUs and instruction sets found, and M per level and dtype");
  const auto options = std::make_shared<MachineOptions>();
  command->add_flag("--probe", options->probe,
                    "measure where loads and streams become slower (a second or two), and say "
                    "whether that is where L1 and L2 were told to end");
  add_json(command, &options->json);
  command->footer(
      "M = one thread's share of the cache x fraction / size of a word. Overrides: IOATTN_L1,\n"
      "IOATTN_L2, IOATTN_L3 (bytes), HWLOC_XMLFILE, IOATTN_ISA. In a virtual machine a plan whose "
      "blocks\n"
      "are in L3 because L2 is too small takes 4 MiB of it at most, unless IOATTN_L3 says what "
      "there is.");
  command->callback([options] { run_machine(*options); });
}

}  // namespace ioattn::tune
