#include "tune/files/text_file.hpp"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "tune/command_error.hpp"
#include "tune/files/output_files.hpp"

namespace ioattn::tune {

void write_texts(const std::vector<NamedText>& texts) {
  OutputFiles files;
  for (const NamedText& text : texts) {
    std::ofstream file(files.add(text.path), std::ios::binary | std::ios::trunc);
    file << text.text;
    file.close();
    if (!file) cannot_write(text.path, errno);
  }
  files.keep();
}

void write_text(const std::string& path, const std::string& text) { write_texts({{path, text}}); }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw RunError("cannot read " + path);
  return text.str();
}

}  // namespace ioattn::tune
