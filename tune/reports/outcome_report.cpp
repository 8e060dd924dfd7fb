#include "tune/reports/outcome_report.hpp"

#include <fmt/format.h>

#include <map>

#include "machine/machine.hpp"
#include "tune/files/npy_outputs.hpp"
#include "tune/passes/measure.hpp"
#include "tune/reports/machine_report.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

// Of the flops that multiply-adds of the same factors make, on as many threads.
std::vector<double> peak_fractions(const Outcome& outcome) {
  std::map<DType, double> peaks;
  std::vector<double> fractions;
  for (const PassReport& report : outcome.passes) {
    double& peak = peaks[report.factors];
    if (peak == 0) peak = peak_flops(report.factors, outcome.threads);
    fractions.push_back(report.gflops * 1e9 / peak);
  }
  return fractions;
}

void print_outcome_json(const Outcome& outcome, const std::vector<std::string>& files) {
  Json json;
  json["machine"] = machine_json(machine::this_machine());
  json["problem"] = outcome.problem;
  json["isa"] = name_of(outcome.passes.front().isa);
  json["dtype"] = name_of(outcome.dtype);
  json["threads"] = outcome.threads;
  json["io"] = Json::array();
  const std::vector<double> fractions = peak_fractions(outcome);
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    json["io"].push_back(io_json(outcome.passes[i]));
    json["io"].back()["peak_fraction"] = fractions[i];
  }
  json["files"] = files;
  print_json(json);
}

}  // namespace

void print_outcome(const Outcome& outcome, const std::string& directory,
                   const std::vector<std::string>& names, bool json) {
  if (json) return print_outcome_json(outcome, npy_paths(directory, names));
  const machine::Machine& machine = machine::this_machine();
  fmt::print("{}\n", outcome.problem);
  fmt::print("machine: {}; {} of {} threads, {}\n", machine.model, outcome.threads,
             machine.usable_threads, name_of(outcome.passes.front().isa));
  const std::vector<double> fractions = peak_fractions(outcome);
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    const PassReport& report = outcome.passes[i];
    fmt::print("{}: {}\n  {}, {:.2f} Gflop/s = {:.0f}% of the FMA peak\n{}", name_of(report.pass),
               report.plan_text, seconds_text(report.seconds), report.gflops, 100 * fractions[i],
               overflows_text(report.overflows));
  }
  fmt::print("{}{}", io_text(outcome.passes), written_text(directory, names));
}

}  // namespace ioattn::tune
