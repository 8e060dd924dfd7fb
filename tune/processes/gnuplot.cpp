#include "tune/processes/gnuplot.hpp"

#include <cerrno>
#include <cstring>
#include <sstream>

#include "tune/command_error.hpp"
#include "tune/processes/child_process.hpp"

namespace ioattn::tune {
namespace {

// gnuplot repeats the line that it does not take before it says why.
std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last = "no message", line;
  while (std::getline(lines, line))
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last;
}

// On a script in a directory, which is where the script's files are.
void run_gnuplot(const std::string& directory, const std::string& script) {
  const ChildEnd end =
      run_child({"gnuplot", "-d", script}, directory);  // -d: no settings of the user's
  if (end.error != 0) {
    throw RunError(end.error == ENOENT
                       ? "gnuplot is not installed, which draws the figure: apt-get install "
                         "gnuplot-nox"
                       : std::string("gnuplot does not start: ") + std::strerror(end.error));
  }
  if (!end.is_done) throw RunError("gnuplot failed: " + last_line(end.printed));
}

}  // namespace

std::string drawn_svg(const std::vector<NamedText>& files, const std::string& script,
                      const std::string& svg) {
  const TemporaryDirectory directory;
  for (const NamedText& file : files) write_text(directory.path() + "/" + file.path, file.text);
  run_gnuplot(directory.path(), script);
  return read_text(directory.path() + "/" + svg);
}

std::string drawn_svg(const std::string& script) {
  const std::string head =
      "set terminal svg size 960,640 dynamic font 'sans-serif,12'\nset output 'plot.svg'\n";
  return drawn_svg({{"plot.gp", head + script}}, "plot.gp", "plot.svg");
}

void require_gnuplot() { drawn_svg(""); }

}  // namespace ioattn::tune
