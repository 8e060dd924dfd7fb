#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "api/known/wisdom_state.hpp"
#include "api/plans/wisdom_explain.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/options/options.hpp"
#include "tune/options/wisdom_options.hpp"
#include "tune/reports/rates_report.hpp"
#include "tune/text/table.hpp"
#include "wisdom/file.hpp"
#include "wisdom/text.hpp"

namespace ioattn::tune {
namespace {

struct WisdomOptions {
  std::string path;
  bool json = false, all = false;
};

void show(const WisdomOptions& options) {
  const Json known = Json::parse(api::explain_wisdom());
  if (options.json) return print_json(known);
  Table table({"class", "plan", "median", "faster by", "rigor", "date"}, 2);
  for (const Json& record : known["records"]) {
    const double seconds = record["seconds"], estimate = record["estimate_seconds"];
    table.add({record["class"], record["plan"], seconds_text(seconds),
               ratio_text(estimate / seconds), record["rigor"], record["date"]});
  }
  if (known["records"].empty() && known["rates"].empty()) {
    fmt::print("nothing is known of this machine (ioattn wisdom explain)\n");
  }
  if (!known["records"].empty()) fmt::print("{}", table.text());
  if (!known["rates"].empty()) fmt::print("{}", rates_text(known["rates"]));
}

void explain(const WisdomOptions& options) {
  const Json known = Json::parse(api::explain_wisdom());
  if (options.json) return print_json(known);
  if (known["off"]) fmt::print("IOATTN_WISDOM=off: no file is read\n");
  if (known.contains("environment")) {
    for (const auto& [name, value] : known["environment"].items())
      fmt::print("{}: {}\n", name, value.get<std::string>());
  }
  for (const Json& file : known["files"]) {
    const std::string message = file["message"];
    fmt::print("{}: {}, {} records{}{}\n", file["path"].get<std::string>(),
               file["code"].get<std::string>(), file["records"].get<index_t>(),
               message.empty() ? "" : "; ", message);
  }
  index_t used = 0;
  for (const Json& record : known["records"]) {
    if (record["code"] == "ok") {
      ++used;
      continue;
    }
    fmt::print("{}: not used, {}: {}\n", record["class"].get<std::string>(),
               record["code"].get<std::string>(), record["message"].get<std::string>());
  }
  fmt::print("{} records are used here\n", used);
  for (const Json& other : known["others"]) {
    fmt::print("{} records: not used, {}: {}\n", other["records"].get<index_t>(),
               other["code"].get<std::string>(), other["message"].get<std::string>());
  }
  for (const Json& rates : known["rates"]) {
    if (rates["code"] == "ok") continue;
    fmt::print("rates of {}: not used, {}: {}\n", rates["dtype"].get<std::string>(),
               rates["code"].get<std::string>(), rates["message"].get<std::string>());
  }
}

void forget(const WisdomOptions& options) {
  const std::string file = wisdom_file(options.path);
  wisdom::Wisdom there;
  const wisdom::Verdict found = wisdom::read_file(file, &there);
  if (found.reason == wisdom::Reason::not_found && options.path.empty()) return;
  require(found);
  require(wisdom::update_file(file, [&](wisdom::Wisdom* wisdom) {
    if (options.all) *wisdom = {};
    for (int isa = 0; isa < isa_count; ++isa)
      wisdom->forget(api::environment_of(static_cast<Isa>(isa)));
  }));
}

void import_file(const WisdomOptions& options) {
  wisdom::Wisdom read;
  require(wisdom::read_file(options.path, &read));
  {
    const api::WisdomReading known;
    require(api::compare_with_here(read, *known));
  }
  const std::string file = users_wisdom_file();
  require(wisdom::merge_into_file(file, read));
  fmt::print("{} records merged into {}\n", read.size(), file);
}

void export_file(const WisdomOptions& options) {
  const api::WisdomReading known;
  if (options.path.empty()) {
    fmt::print("{}", to_text(known->wisdom));
  } else {
    require(wisdom::merge_into_file(options.path, known->wisdom));
  }
}

}  // namespace

void add_wisdom_command(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("wisdom", "what tuning has learned, and where it is kept");
  command->require_subcommand(1);
  const auto options = std::make_shared<WisdomOptions>();
  const auto add = [&](const char* name, const char* what, void (*run)(const WisdomOptions&)) {
    CLI::App* one = command->add_subcommand(name, what);
    one->callback([options, run] { run(*options); });
    return one;
  };
  add_json(add("show", "the records of this machine", show), &options->json);
  add_json(add("explain", "which files were read, what is not used, and why", explain),
           &options->json);
  CLI::App* of_forget = add("forget", "remove this machine's records from the user's file", forget);
  of_forget->add_flag("--all", options->all, "those of every machine");
  of_forget->add_option("--file", options->path, "another file")->type_name("FILE");
  add("import", "merge a file into the user's", import_file)
      ->add_option("file", options->path, "to read")
      ->required()
      ->type_name("FILE");
  add("export", "merge what is known into a file", export_file)
      ->add_option("file", options->path, "to write (default: print it)")
      ->type_name("FILE");
}

}  // namespace ioattn::tune
