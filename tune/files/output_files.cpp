#include "tune/files/output_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/linked_file.hpp"
#include "tune/command_error.hpp"

namespace ioattn::tune {
namespace {

namespace fs = std::filesystem;

// A directory, a device, a pipe.
bool is_special(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

}  // namespace

void cannot_write(const std::string& path, int error) {
  const std::string reason = error == 0 ? "" : ": " + std::generic_category().message(error);
  throw RunError("cannot write " + path + reason);
}

void make_directory(const std::string& path) {
  std::error_code error, ignored;
  fs::create_directories(path, error);
  if (fs::is_directory(path, ignored)) return;
  if (!error) error = std::make_error_code(std::errc::not_a_directory);
  throw RunError("cannot create " + path + ": " + error.message());
}

bool same_file(const std::string& p, const std::string& q) {
  std::error_code error;
  if (p == q || fs::equivalent(p, q, error)) return true;
  const auto place = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return !fs::exists(p, error) && !p.empty() && !q.empty() && place(p) == place(q);
}

void check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  std::vector<NamedFile> others = inputs;
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || is_special(output.path)) continue;
    for (const NamedFile& other : others) {
      if (!same_file(output.path, other.path)) continue;
      throw UsageError(std::string(output.option) + " and " + other.option + " are one file, " +
                       output.path);
    }
    others.push_back(output);
  }
}

OutputFiles::~OutputFiles() {
  std::error_code error;
  for (const auto& [temporary, path] : files_) fs::remove(temporary, error);
}

std::string OutputFiles::add(const std::string& path) {
  if (is_special(path)) cannot_write(path + ": it is no regular file", 0);
  std::error_code error;
  const std::string place = linked_file(path, &error);
  if (error) cannot_write(path, error.value());
  const std::string temporary = place + ".tmp" + std::to_string(::getpid());
  files_.emplace_back(temporary, place);
  if (!std::ofstream(temporary, std::ios::binary | std::ios::trunc)) cannot_write(path, errno);
  return temporary;
}

void OutputFiles::keep() {
  for (const auto& [temporary, path] : files_) {
    std::error_code error;
    fs::rename(temporary, path, error);
    if (error) cannot_write(path, error.value());
  }
  files_.clear();
}

void require_writable(const std::string& path) { OutputFiles().add(path); }

ReportFile::ReportFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    open();
  } else {
    require_writable(path);  // a signal may end the program before there is anything to tell
  }
}

void ReportFile::open() {
  file_.reset(std::fopen(path_.c_str(), "ae"));  // e: no command that is run has it
  if (!file_) cannot_write(path_, errno);
}

void ReportFile::write(const std::string& text) {
  if (!file_) open();
  std::error_code ignored;  // pipes and terminals have no size
  fs::resize_file(path_, 0, ignored);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (std::fflush(file_.get()) != 0 || !is_written) cannot_write(path_, errno);
}

}  // namespace ioattn::tune
