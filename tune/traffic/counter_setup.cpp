#include "tune/traffic/counter_setup.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "machine/cpu_id.hpp"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/text/text_list.hpp"

namespace ioattn::tune {

void CounterOptions::add(CLI::App* app) {
  app->add_option("--events", file, "event file in place of the one for this CPU")
      ->type_name("FILE");
  // One text: an option of several values would take the -- behind it.
  app->add_option_function<std::string>(
         "--event", [this](const std::string& list) { named = split(list, ','); },
         "count these too: page-faults, r0151, names of libpfm4")
      ->type_name("LIST");
  app->add_option("--record", record, "keep what the kernel answered, for tests elsewhere")
      ->type_name("FILE");
}

CounterSetup::CounterSetup(const CounterOptions& options)
    : surroundings_(instruments::read_surroundings(machine::this_machine().virtual_machine)),
      system_(&instruments::linux_perf()),
      recording_(options.record) {
  const machine::CpuId cpu = machine::cpu_id(machine::this_machine());
  if (options.file.empty()) {
    file_ = instruments::builtin_events_for(cpu);
  } else {
    require(instruments::read_event_file(options.file, &file_));
    if (!file_.is_for(cpu)) {
      note_ = fmt::format(
          "the match: lines of {} are of other CPUs than this one ({} {} {:#x}): its codes may "
          "count other things here",
          options.file, cpu.vendor, cpu.family, cpu.model);
    }
  }
  instruments::set_pmu_type("/sys", &file_);
  events_ = file_.events;
  for (const std::string& name : options.named) {
    instruments::Event event;
    require(instruments::resolve_event(name, &event));
    // What a generic id really is on this CPU, where that is known.
    for (const instruments::Event& known : file_.generic) {
      if (known.id == event.id) event.text = "A generic id; on this CPU " + known.text;
    }
    instruments::set_pmu(file_, &event);
    events_.push_back(event);
  }
  if (recording_.is_wanted()) {
    recorder_ = std::make_unique<instruments::RecordingPerf>(system_);
  }
}

void CounterSetup::write_recording() {
  if (recorder_) recording_.write("# " + file_.cpu + "\n" + recorder_->text());
}

}  // namespace ioattn::tune
