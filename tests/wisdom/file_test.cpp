// Wisdom in files: put in place as a whole, never over what cannot be read, by any number of
// processes.

#include "wisdom/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "status_ok.hpp"
#include "wisdom/samples.hpp"
#include "wisdom/text.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::wisdom;
namespace fs = std::filesystem;

class WisdomFile : public testing::Test {
 protected:
  WisdomFile() {
    std::string pattern = testing::TempDir() + "wisdomXXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~WisdomFile() override { fs::remove_all(directory_); }

  std::string path(const std::string& name = "wisdom.json") const {
    return directory_ + "/" + name;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string read(const std::string& name = "wisdom.json") const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  static std::string reason(const Verdict& verdict) {
    EXPECT_EQ(verdict.is_ok(), verdict.message.empty());
    return name_of(verdict.reason);
  }
  std::string reason_of_reading(const std::string& name) const {
    Wisdom wisdom = sample_wisdom();
    const Verdict verdict = read_file(path(name), &wisdom);
    if (!verdict.is_ok()) {
      EXPECT_EQ(wisdom.size(), 3);
      EXPECT_NE(verdict.message.find(path(name)), std::string::npos);
    }
    return reason(verdict);
  }

  std::string directory_;
};

TEST_F(WisdomFile, IsMade) {
  const std::string deep = path("a/b/wisdom.json");
  ASSERT_OK(merge_into_file(deep, sample_wisdom()));
  Wisdom wisdom;
  ASSERT_OK(read_file(deep, &wisdom));
  EXPECT_EQ(to_text(wisdom), to_text(sample_wisdom()));
  EXPECT_FALSE(fs::exists(deep + ".new"));
}

TEST_F(WisdomFile, IsMergedNotOverwritten) {
  ASSERT_OK(merge_into_file(path(), sample_wisdom()));
  Wisdom more;
  more.keep(sample_environment("neon"), sample_class(), sample_record());
  more.keep(sample_environment(), sample_class(10, "dQ+dK+dV"), sample_record(7));
  ASSERT_OK(merge_into_file(path(), more));
  Wisdom wisdom;
  ASSERT_OK(read_file(path(), &wisdom));
  EXPECT_EQ(wisdom.size(), 4);
  const Record& kept = wisdom.records_of(sample_environment())->at(sample_class(10, "dQ+dK+dV"));
  EXPECT_EQ(kept.seconds, 0.5);
  EXPECT_NE(kept.unknown.find("blue"), std::string::npos);
  EXPECT_EQ(wisdom.unknown(), R"({"comment":"kept"})");
}

TEST_F(WisdomFile, IsRefusedWithAReason) {
  EXPECT_EQ(reason_of_reading("nowhere"), "not_found");
  EXPECT_EQ(reason_of_reading("nowhere/at/all"), "not_found");
  write("plain", "");
  EXPECT_EQ(reason_of_reading("plain/wisdom.json"), "not_found");
  write("empty", "");
  EXPECT_EQ(reason_of_reading("empty"), "syntax");
  write("large", std::string(largest_text + 1, ' '));
  EXPECT_EQ(reason_of_reading("large"), "too_large");
  write("later", R"({"format":"ioattn wisdom","schema":2})");
  EXPECT_EQ(reason_of_reading("later"), "schema");
  fs::create_directory(path("directory"));
  EXPECT_EQ(reason_of_reading("directory"), "unreadable");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(reason_of_reading("pipe"), "unreadable");
  write("good", to_text(sample_wisdom()));
  EXPECT_EQ(reason_of_reading("good"), "ok");
}

TEST_F(WisdomFile, IsLeftAloneIfItCannotBeRead) {
  for (const char* text : {"{ truncated", R"({"format":"ioattn wisdom","schema":2})"}) {
    write("wisdom.json", text);
    EXPECT_NE(reason(merge_into_file(path(), sample_wisdom())), "ok");
    EXPECT_EQ(read(), text);
    EXPECT_FALSE(fs::exists(path() + ".new"));
  }
}

TEST_F(WisdomFile, IsReplacedWhereALinkPoints) {
  write("real.json", to_text(Wisdom()));
  fs::create_symlink(path("real.json"), path());
  ASSERT_OK(merge_into_file(path(), sample_wisdom()));
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(read("real.json"), to_text(sample_wisdom()));
}

TEST_F(WisdomFile, IsMadeWhereALinkPoints) {
  fs::create_symlink("b/link", path());  // from the directory of the link
  fs::create_directory(path("b"));
  fs::create_symlink("real.json", path("b/link"));
  ASSERT_OK(merge_into_file(path(), sample_wisdom()));
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_TRUE(fs::is_symlink(path("b/link")));
  EXPECT_EQ(read("b/real.json"), to_text(sample_wisdom()));

  fs::create_symlink("circle", path("circle"));
  EXPECT_EQ(reason(merge_into_file(path("circle"), sample_wisdom())), "unwritable");
  EXPECT_TRUE(fs::is_symlink(path("circle")));
}

TEST_F(WisdomFile, KeepsItsMode) {
  for (const fs::perms mode : {fs::perms(0600), fs::perms(0664)}) {
    write("wisdom.json", to_text(Wisdom()));
    fs::permissions(path(), mode);
    ASSERT_OK(merge_into_file(path(), sample_wisdom()));
    EXPECT_EQ(fs::status(path()).permissions(), mode);
  }
}

TEST_F(WisdomFile, TellsThatItsDirectoryIsAnothers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another";
  fs::permissions(directory_, fs::perms(0755));
  const pid_t child = fork();
  if (child == 0) {
    const bool is_other = setuid(65534) == 0;
    const std::string message = merge_into_file(path(), sample_wisdom()).message;
    _exit(is_other && message.find("Permission denied") != std::string::npos ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Who shares the directory may have made the lock.
TEST_F(WisdomFile, IsWrittenUnderALockOfAnother) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another";
  write("wisdom.json.lock", "");
  fs::permissions(path("wisdom.json.lock"), fs::perms(0644));
  fs::permissions(directory_, fs::perms::all);
  constexpr uid_t nobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    const bool is_other = setuid(nobody) == 0;
    _exit(is_other && merge_into_file(path(), sample_wisdom()).is_ok() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(WisdomFile, TellsWhatCannotBeWritten) {
  write("file", "");
  EXPECT_EQ(reason(merge_into_file(path("file/wisdom.json"), sample_wisdom())), "unwritable");
  // The name of the new file is taken by a directory.
  fs::create_directory(path("wisdom.json.new"));
  EXPECT_EQ(reason(merge_into_file(path(), sample_wisdom())), "unwritable");
  EXPECT_FALSE(fs::exists(path()));
  Wisdom large;
  Record record = sample_record();
  record.unknown = "{\"note\":\"" + std::string(largest_text, 'x') + "\"}";
  large.keep(sample_environment(), sample_class(), record);
  EXPECT_EQ(reason(merge_into_file(path("large.json"), large)), "too_large");
}

// As where the disk is full.
TEST_F(WisdomFile, LeavesNothingThatCouldNotBeWritten) {
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit bytes = {16, 16};
    const bool is_limited = setrlimit(RLIMIT_FSIZE, &bytes) == 0;
    _exit(is_limited && reason(merge_into_file(path(), sample_wisdom())) == "unwritable" ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_FALSE(fs::exists(path() + ".new"));
}

TEST_F(WisdomFile, IsRefusedBeforeAnythingIsMade) {
  fs::create_directory(path("directory"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  for (const char* name : {"", "new/sub/", "new/.", "new/..", ".", "directory", "pipe"}) {
    SCOPED_TRACE(name);
    const std::string relative = name;
    EXPECT_EQ(reason(merge_into_file(relative, sample_wisdom())), "unwritable");
    if (*name != '\0') {
      EXPECT_EQ(reason(merge_into_file(path(relative), sample_wisdom())), "unwritable");
    }
    EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 2) << "something was made";
  }
  EXPECT_TRUE(fs::is_empty("directory"));
  fs::current_path(before);
}

// A child that adds records of its own, one at a time; after so many again the first.
constexpr int own_records = 100;
pid_t start_writer(const std::string& path, int writer, int times) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(300);
  for (int i = 0; i < times; ++i) {
    Wisdom wisdom;
    wisdom.keep(sample_environment(), sample_class(10, "forward", 1000 * writer + i % own_records),
                sample_record());
    if (!merge_into_file(path, wisdom).is_ok()) _exit(1);
  }
  _exit(0);
}

void expect_always_valid(const std::string& path, int times) {
  std::vector<pid_t> writers;
  for (const int writer : {1, 2}) writers.push_back(start_writer(path, writer, times));
  ioattn::index_t most = 0;
  for (std::size_t running = writers.size(); running > 0;) {
    Wisdom wisdom;
    const Verdict verdict = read_file(path, &wisdom);
    EXPECT_TRUE(verdict.is_ok() || (most == 0 && verdict.reason == Reason::not_found))
        << verdict.message;
    EXPECT_GE(wisdom.size(), most) << "records were lost";
    most = std::max(most, wisdom.size());
    int status = 0;
    if (waitpid(writers[running - 1], &status, WNOHANG) == 0) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    --running;
  }
  Wisdom wisdom;
  ASSERT_OK(read_file(path, &wisdom));
  EXPECT_EQ(wisdom.size(), 2 * std::min(times, own_records));
}

TEST_F(WisdomFile, OfTwoWritersIsAlwaysValid) { expect_always_valid(path(), 50); }
using WisdomFileSweep = WisdomFile;
TEST_F(WisdomFileSweep, OfTwoWritersIsAlwaysValid) { expect_always_valid(path(), 1000); }

}  // namespace
}  // namespace ioattn_test
