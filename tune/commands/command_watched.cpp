#include <CLI/CLI.hpp>
#include <memory>

#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/options/options.hpp"
#include "tune/traffic/eviction.hpp"
#include "tune/traffic/traffic_case.hpp"

namespace ioattn::tune {
namespace {

struct WatchedOptions {
  std::string problem, plan;
  Pass pass = Pass::backward;
  index_t passes = 1, evicted_bytes = 0;
};

// All but the second pass is there whether or not that runs, and each pass begins with caches that
// hold none of it: two runs of this differ by what one pass does.
void run_watched(const WatchedOptions& options) {
  const std::unique_ptr<TrafficCase> problem = text_case(options.pass, options.problem);
  problem->take_plan(options.plan);
  const Eviction evict(options.evicted_bytes);
  for (index_t i = 0; i < 2; ++i) {
    evict();
    if (i < options.passes) problem->run(nullptr, nullptr);
  }
}

}  // namespace

void add_watched_command(CLI::App* app) {
  const auto options = std::make_shared<WatchedOptions>();
  CLI::App* command = app->add_subcommand(
      "watched-passes", "one pass or two of a plan, for a simulator of caches to watch");
  command->group("");  // of `measure`, not of users
  command->add_option("--problem", options->problem)->required();
  add_pass(command, &options->pass);
  command->add_option("--plan", options->plan, "as `measure` prints it")->required();
  add_integer(command, "--passes", &options->passes, 1, 2, "how many")->required();
  add_integer(command, "--evict", &options->evicted_bytes, 1, index_t{1} << 40, "bytes of caches")
      ->required();
  command->callback([options] { run_watched(*options); });
}

}  // namespace ioattn::tune
