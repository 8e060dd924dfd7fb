#include "tune/text_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tune/command_error.hpp"

namespace ioattn::tune {

void write_text(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.tmp{}", path, getpid());
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (file && !error) return;
  std::filesystem::remove(temporary, error);
  throw RunError("cannot write " + path);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw RunError("cannot read " + path);
  return text.str();
}

}  // namespace ioattn::tune
