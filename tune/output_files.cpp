#include "tune/output_files.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tune/command_error.hpp"

namespace ioattn::tune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path) { throw RunError("cannot write " + path); }

}  // namespace

void make_directory(const std::string& path) {
  if (path.empty()) throw UsageError("\"\" is no directory");
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path, error)) throw RunError("cannot create " + path);
}

bool same_file(const std::string& p, const std::string& q) {
  std::error_code error;
  return p == q || fs::equivalent(p, q, error);
}

OutputFiles::~OutputFiles() {
  std::error_code error;
  for (const auto& [temporary, path] : files_) fs::remove(temporary, error);
}

std::string OutputFiles::add(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) cannot_write(path);
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  files_.emplace_back(temporary, path);
  if (!std::ofstream(temporary, std::ios::binary | std::ios::trunc)) cannot_write(path);
  return temporary;
}

void OutputFiles::keep() {
  for (const auto& [temporary, path] : files_) {
    std::error_code error;
    fs::rename(temporary, path, error);
    if (error) cannot_write(path);
  }
  files_.clear();
}

}  // namespace ioattn::tune
