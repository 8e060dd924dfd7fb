#include "tune/traffic/traffic_html.hpp"

#include <fmt/format.h>

#include <functional>

#include "tune/command_error.hpp"
#include "tune/files/text_file.hpp"

namespace ioattn::tune {
namespace {

// Points of one line of the plot.
class Curves {
 public:
  void begin(const std::string& title, const std::string& style) {
    data_ += fmt::format("$curve{} << EOD\n", count_);
    plot_ += fmt::format("{}$curve{} using 1:2 with {} title \"{}\"", count_ == 0 ? "" : ", ",
                         count_, style, title);
  }
  void add(double x, double y) {
    if (y > 0) data_ += fmt::format("{:.9g} {:.9g}\n", x, y);
  }
  void end() {
    data_ += "EOD\n";
    ++count_;
  }
  std::string script() const { return data_ + "plot " + plot_ + "\n"; }

 private:
  std::string data_, plot_;
  int count_ = 0;
};

double real(index_t words) { return static_cast<double>(words); }

// One line of the sweep.
void add_curve(const TrafficReport& report, const std::string& title, const std::string& style,
               const std::function<double(const Traffic&)>& words, Curves* curves) {
  curves->begin(title, style);
  for (const Traffic& t : report.sweep) curves->add(real(t.plan.M), words(t));
  curves->end();
}

// What an LRU cache of any size would move, were it given the plan of one level.
void add_lru(const Traffic& t, const TrafficReport& report, Curves* curves) {
  const double words_per_line = real(t.line_bytes) / real(size_of(report.dtype));
  const double M_per_line =
      words_per_line * real(t.plan.M * size_of(report.dtype)) / real(t.capacity_bytes);
  curves->begin("plan of " + t.plan.level + ", LRU of every size", "lines dashtype 3");
  double next = 8;
  for (std::size_t i = 0; i < t.lru.size(); ++i) {
    const double lines = static_cast<double>(i + 1);
    if (lines < next && i + 1 < t.lru.size()) continue;
    curves->add(lines * M_per_line, t.lru[i]);
    next = lines * 1.02;
  }
  curves->end();
}

std::string script_of(const TrafficReport& report, const std::vector<Marker>& markers) {
  Curves curves;
  if (!report.sweep.empty()) {
    add_curve(
        report, "lower bound", "linespoints", [](const Traffic& t) { return t.plan.bound.words; },
        &curves);
    add_curve(
        report, "closed formula", "linespoints",
        [](const Traffic& t) { return real(t.plan.formula.words()); }, &curves);
    add_curve(
        report, "counted", "linespoints", [](const Traffic& t) { return real(t.count.words()); },
        &curves);
    for (const TrafficLine& column : sweep_columns(report)) {
      add_curve(
          report, column.head_or_name(), "linespoints",
          [&](const Traffic& t) {
            const TrafficLine* line = find_line(t, column.key);
            return line != nullptr && line->is_available() ? line->moved() : 0;
          },
          &curves);
    }
  }
  for (const Traffic& t : report.levels) {
    if (!t.lru.empty()) add_lru(t, report, &curves);
    curves.begin("counted, plan of " + t.plan.level, "points pointsize 1.5");
    curves.add(real(t.plan.M), real(t.count.words()));
    curves.end();
    for (const TrafficLine& line : t.lines) {
      if (!line.is_available()) continue;
      curves.begin(fmt::format("{}{}, {}", line.name, line.out ? "" : ", fills only", t.plan.level),
                   "points");
      curves.add(real(t.plan.M), line.moved());
      curves.end();
    }
  }
  for (const Marker& marker : markers) {
    curves.begin(marker.title, "points pointsize 1.5");
    curves.add(marker.M, marker.words);
    curves.end();
  }
  return "set logscale xy\nset format '10^{%T}'\nset grid\nset key outside right noenhanced\n"
         "set xlabel 'M: words of fast memory that the plan was made for'\n"
         "set ylabel 'words moved'\n" +
         curves.script();
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

void write_html(const TrafficReport& report, const std::vector<Marker>& markers,
                const std::string& text, const std::string& path) {
  const std::string svg = drawn_svg(script_of(report, markers));
  const std::size_t begin = svg.find("<svg");
  if (begin == std::string::npos) throw RunError("gnuplot drew no plot");
  const std::string title = escaped("ioattn measure: " + report.problem);
  write_text(path, fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                               "<title>{}</title></head>\n<body>\n<h1>{}</h1>\n{}\n<pre>\n{}"
                               "</pre>\n</body></html>\n",
                               title, title, svg.substr(begin), escaped(text)));
}

}  // namespace ioattn::tune
