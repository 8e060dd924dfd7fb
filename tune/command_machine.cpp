#include <fmt/format.h>

#include <memory>

#include "api/session.hpp"
#include "tune/command_error.hpp"
#include "tune/commands.hpp"
#include "tune/options.hpp"
#include "tune/report_json.hpp"
#include "tune/report_text.hpp"

namespace ioattn::tune {
namespace {

void run_machine(bool json) {
  const kernels::Kernels* kernels = nullptr;
  require(api::selected_kernels(&kernels));
  const machine::Machine& machine = machine::this_machine();
  if (json) {
    Json object = machine_json(machine);
    object["selected_isa"] = name_of(kernels->isa);
    print_json(object);
    return;
  }
  fmt::print("{}", machine_text(machine, *kernels));
}

}  // namespace

void add_machine_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "machine", "the caches, CPUs and instruction sets found, and M per level and dtype");
  const auto json = std::make_shared<bool>(false);
  add_json(command, json.get());
  command->footer(
      "M = one thread's share of the cache x fraction / size of a word. Overrides: IOATTN_L1,\n"
      "IOATTN_L2, IOATTN_L3 (bytes), HWLOC_XMLFILE, IOATTN_ISA.");
  command->callback([json] { run_machine(*json); });
}

}  // namespace ioattn::tune
