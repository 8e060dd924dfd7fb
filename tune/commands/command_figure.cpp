#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/figure/figure_files.hpp"
#include "tune/files/output_files.hpp"
#include "tune/files/text_file.hpp"
#include "tune/options/options.hpp"
#include "tune/processes/gnuplot.hpp"
#include "tune/text/report_json.hpp"

namespace ioattn::tune {
namespace {

struct FigureOptions {
  index_t n = 0, d = 0;
  std::string out;
  bool points = false;
  bool json = false;
};

Json table_json(const std::vector<TableCell>& table) {
  Json list = Json::array();
  for (const TableCell& cell : table) {
    Json json;
    json["row"] = cell.row;
    json["cache"] = cell.cache;
    json["M"] = cell.M;
    json["formula"] = cell.formula;
    json["formula_words"] = cell.formula_words;
    json["what"] = cell.what;
    json["words"] = cell.words;
    json["counted"] = cell.counted ? Json(*cell.counted) : Json();
    json["ratio"] = cell.ratio();
    list.push_back(json);
  }
  return list;
}

void run_figure(const FigureOptions& options) {
  const LayerShape shape = figure_shape(options.n, options.d);
  if (options.points) check_counted_work(shape);
  require_gnuplot();
  make_directory(options.out);
  Figure figure = make_figure(shape);
  std::vector<NamedText> files;  // by name
  if (options.points) {
    figure.series = measured_points(shape, sizes_of_points(figure));
    files.push_back({"points.csv", points_csv(figure)});
  }
  const std::vector<TableCell> table = make_table(shape, options.points || is_soon_counted(shape));
  files.push_back({"io.csv", curves_csv(figure)});
  files.push_back({"table.csv", table_csv(table)});
  files.push_back({"io.gp", gnuplot_script(figure)});
  const std::string svg = accessible_svg(drawn_svg(files, "io.gp", "io.svg"), figure);
  files.push_back({"io.svg", svg});
  files.push_back({"io.html", figure_html(svg, figure, table)});
  for (NamedText& file : files) file.path = options.out + "/" + file.path;
  write_texts(files);

  if (options.json) {
    Json json;
    json["n"] = shape.n;
    json["d"] = shape.d;
    json["files"] = Json::array();
    for (const NamedText& file : files) json["files"].push_back(file.path);
    json["table"] = table_json(table);
    print_json(json);
    return;
  }
  for (const NamedText& file : files) fmt::print("{}\n", file.path);
}

}  // namespace

void add_figure_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "figure", "Figure 1 and Table 1 of the paper with their constants, for one n and d");
  const auto options = std::make_shared<FigureOptions>();
  add_integer(command, "--n", &options->n, 1, largest_size, "rows, n = m, at least d")->required();
  add_integer(command, "--d", &options->d, 1, largest_size, "columns, d = dv, at least 8")
      ->required();
  command->add_option("--out", options->out, "directory for the files, made if it is missing")
      ->required()
      ->type_name("DIR");
  command->add_flag(
      "--points", options->points,
      "run schedules at some M, and add the words that are counted and that a simulated LRU "
      "cache moves");
  add_json(command, &options->json);
  command->footer(
      "Writes io.svg, io.csv, table.csv, the page io.html with all of it, and io.gp, what gnuplot\n"
      "draws; with --points points.csv. gnuplot has to be installed. The words of Table 1 are\n"
      "counted too, in runs of the schedules: with --points or up to n^2 d = 2^30.");
  command->callback([options] { run_figure(*options); });
}

}  // namespace ioattn::tune
