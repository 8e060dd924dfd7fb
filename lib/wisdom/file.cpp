#include "wisdom/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

#include "base/linked_file.hpp"
#include "wisdom/text.hpp"

namespace ioattn::wisdom {
namespace {

class File {
 public:
  File(const std::string& path, int flags) { try_to_open(path, flags); }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // Of one that is not open. If that fails, too, errno is that of the first time.
  void try_otherwise(const std::string& path, int flags) {
    const int first = errno;
    try_to_open(path, flags);
    if (!is_open()) errno = first;
  }

 private:
  void try_to_open(const std::string& path, int flags) {
    do {
      descriptor_ = open(path.c_str(), flags | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EINTR);
  }

  int descriptor_ = -1;
};

Verdict failed(Reason reason, const std::string& path) {
  return {reason, path + ": " + std::generic_category().message(errno)};
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Who holds it may have been stopped: nobody waits for ever.
Verdict lock(const File& file, const std::string& path) {
  constexpr std::chrono::seconds longest_wait(20);
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  while (flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failed(Reason::unwritable, path);
    if (std::chrono::steady_clock::now() > until) {
      return {Reason::busy, path + " is locked by another process"};
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return {};
}

// As far as it is allowed: who shared a file goes on sharing it.
void take_owner_and_mode(int descriptor, const std::string& of) {
  struct stat about = {};
  if (stat(of.c_str(), &about) != 0) return;
  if (fchown(descriptor, about.st_uid, about.st_gid) != 0 &&
      fchown(descriptor, static_cast<uid_t>(-1), about.st_gid) != 0) {
    about.st_mode &= ~static_cast<mode_t>(S_IRWXG);  // of another group
  }
  static_cast<void>(fchmod(descriptor, about.st_mode & 0777));
}

// What takes the place of another file.
Verdict write_new(const std::string& path, const std::string& text, const std::string& place) {
  const File file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (!file.is_open()) return failed(Reason::unwritable, path);
  take_owner_and_mode(file.descriptor(), place);
  if (!write_all(file.descriptor(), text) || fsync(file.descriptor()) != 0) {
    return failed(Reason::unwritable, path);
  }
  return {};
}

// Gone again unless it is put in place.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {}
  ~NewFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Verdict write(const std::string& text, const std::string& place) const {
    return write_new(path_, text, place);
  }
  bool rename_to(const std::string& place) {
    if (rename(path_.c_str(), place.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string path_;
};

// A link's target, also where there is nothing yet. Fine unless nothing may be made there.
Verdict find_place(const std::string& path, std::string* place) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  if (name.empty() || name == "." || name == "..") {
    return {Reason::unwritable, "\"" + path + "\" names no file"};
  }
  std::error_code failure;
  *place = linked_file(path, &failure);
  if (failure == std::errc::not_enough_memory) throw std::bad_alloc();
  if (failure) return {Reason::unwritable, path + ": " + failure.message()};
  if (std::filesystem::exists(*place, failure) &&
      !std::filesystem::is_regular_file(*place, failure)) {
    return {Reason::unwritable, path + " is no regular file"};
  }
  return {};
}

// The name is on disk as well once its directory is; what cannot be synced is as good as it gets.
void sync_directory(const std::string& path) {
  const File directory(path, O_RDONLY | O_DIRECTORY);
  if (directory.is_open()) static_cast<void>(fsync(directory.descriptor()));
}

}  // namespace

Verdict read_file(const std::string& path, Wisdom* wisdom) {
  const File file(path, O_RDONLY | O_NONBLOCK);  // a pipe would wait for its writer
  if (!file.is_open()) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return failed(missing ? Reason::not_found : Reason::unreadable, path);
  }
  struct stat about = {};
  if (fstat(file.descriptor(), &about) != 0) return failed(Reason::unreadable, path);
  if (!S_ISREG(about.st_mode)) return {Reason::unreadable, path + " is no regular file"};
  // One byte more tells a file that is too large, or grows.
  const auto told = static_cast<std::size_t>(about.st_size);
  std::string text(std::min(told, largest_text) + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.descriptor(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(Reason::unreadable, path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  Verdict verdict = parse(text, wisdom);
  if (!verdict.is_ok()) verdict.message = path + ": " + verdict.message;
  return verdict;
}

Verdict update_file(const std::string& path, const std::function<void(Wisdom*)>& change) {
  std::string place;
  Verdict verdict = find_place(path, &place);
  if (!verdict.is_ok()) return verdict;
  const std::string parent = std::filesystem::path(place).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string lock_path = place + ".lock";
  File lock_file(lock_path, O_RDWR | O_CREAT);
  if (!lock_file.is_open()) lock_file.try_otherwise(lock_path, O_RDONLY);  // that of another user
  if (!lock_file.is_open()) return failed(Reason::unwritable, lock_path);
  verdict = lock(lock_file, lock_path);
  if (!verdict.is_ok()) return verdict;

  Wisdom wisdom;
  verdict = read_file(place, &wisdom);
  if (!verdict.is_ok() && verdict.reason != Reason::not_found) return verdict;
  change(&wisdom);
  const std::string text = to_text(wisdom);
  if (text.size() > largest_text) {
    return {Reason::too_large, place + " would have " + std::to_string(text.size()) + " bytes"};
  }
  NewFile fresh(place + ".new");  // whose only writer has the lock
  verdict = fresh.write(text, place);
  if (!verdict.is_ok()) return verdict;
  if (!fresh.rename_to(place)) return failed(Reason::unwritable, place);
  sync_directory(directory);  // nothing may fail any more
  return {};
}

Verdict merge_into_file(const std::string& path, const Wisdom& wisdom) {
  return update_file(path, [&](Wisdom* there) { there->merge(wisdom); });
}

}  // namespace ioattn::wisdom
