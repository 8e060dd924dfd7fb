#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Files that a command leaves behind.
namespace ioattn::tune {

// Throws RunError; `error` is an errno, or 0.
[[noreturn]] void cannot_write(const std::string& path, int error);

// Makes a directory for output files unless it is there. Throws RunError.
void make_directory(const std::string& path);

// Whether two names are those of one file, which need not be there yet.
bool same_file(const std::string& p, const std::string& q);

// A file and the option that names it; "": none.
struct NamedFile {
  const char* option;
  std::string path;
};
// Throws UsageError if an output is also an input, or another output; devices may be.
void check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

// Files that appear whole, and all or none unless a place becomes a directory, or its own one goes
// away, while they are written: each is written to a temporary beside its place, and all are
// renamed at the end.
class OutputFiles {
 public:
  OutputFiles() = default;
  ~OutputFiles();  // removes what was not kept
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // The temporary of a file, made empty. Throws RunError, also where a directory or a device has
  // the name. Links are followed.
  std::string add(const std::string& path);
  void keep();  // throws RunError

 private:
  std::vector<std::pair<std::string, std::string>> files_;  // temporary and place
};

// Throws RunError as OutputFiles::add does, and leaves nothing: for before the work.
void require_writable(const std::string& path);

// A file that is known to be writable before what it is to tell of begins, which might take long
// for nothing otherwise. What was there, or was not, stays so until there is something to tell.
class ReportFile {
 public:
  explicit ReportFile(const std::string& path);  // "": none; throws RunError

  bool is_wanted() const { return !path_.empty(); }
  void write(const std::string& text);  // throws RunError

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void open();

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ioattn::tune
