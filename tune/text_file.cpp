#include "tune/text_file.hpp"

#include <fstream>
#include <sstream>

#include "tune/command_error.hpp"
#include "tune/output_files.hpp"

namespace ioattn::tune {

void write_text(const std::string& path, const std::string& text) {
  OutputFiles files;
  std::ofstream file(files.add(path), std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw RunError("cannot write " + path);
  files.keep();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw RunError("cannot read " + path);
  return text.str();
}

}  // namespace ioattn::tune
