#include <CLI/CLI.hpp>
#include <memory>

#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/demo/demo_report.hpp"
#include "tune/options/options.hpp"

namespace ioattn::tune {
namespace {

struct DemoOptions {
  std::string directory;
  bool json = false;
};

void run_demo(const DemoOptions& options) {
  const Demo demo = run_demo_cases(options.directory);
  const Verdict verdict = judge(demo);
  const std::string summary = learned(demo, verdict);
  if (options.json) {
    print_demo_json(demo, summary);
  } else {
    print_demo(demo, summary);
  }
  if (verdict.wrong > 0) {
    throw RunError(std::to_string(verdict.wrong) + " of " + std::to_string(verdict.runs) +
                   " runs exceed the error bounds");
  }
}

}  // namespace

void add_demo_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "demo", "every schedule on real data: error, time, words moved, lower bound");
  const auto options = std::make_shared<DemoOptions>();
  command
      ->add_option("directory", options->directory,
                   "with A, X, Y, dO and golden_dX (float64), all .npy")
      ->required()
      ->type_name("DIR");
  add_json(command, &options->json);
  command->footer(
      "Exit code 1 if an error exceeds 5e-6 (f32) or 1e-13 (f64) of the largest value.");
  command->callback([options] { run_demo(*options); });
}

}  // namespace ioattn::tune
