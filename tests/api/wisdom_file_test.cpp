// Wisdom that a process reads by itself, and saves when it is told to. Each case is a child, as a
// process reads once: no child follows a thread.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ioattn/ioattn.hpp"

namespace ioattn_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class WisdomOfFiles : public testing::Test {
 protected:
  WisdomOfFiles() {
    std::string pattern = testing::TempDir() + "wisdomXXXXXX";
    directory = mkdtemp(pattern.data());
  }
  ~WisdomOfFiles() override { fs::remove_all(directory); }

  // The body runs with these variables; an empty one is unset.
  void in_child(const std::string& variable, const std::string& cache,
                const std::function<void()>& body) const {
    const pid_t child = fork();
    ASSERT_NE(child, -1);
    if (child == 0) {
      alarm(60);
      unsetenv("IOATTN_WISDOM");
      if (!variable.empty()) setenv("IOATTN_WISDOM", variable.c_str(), 1);
      setenv("XDG_CACHE_HOME", cache.c_str(), 1);
      try {
        body();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above";
  }

  static ioattn_sdpa_problem problem() {
    ioattn_sdpa_problem p = {};
    p.struct_size = sizeof p;
    p.batch = p.heads = p.kv_heads = 1;
    p.n = p.m = 64;
    p.d = p.dv = 16;
    return p;
  }
  // By a search, however busy the machine is.
  static void learn() {
    ioattn_options options = {};
    options.struct_size = sizeof options;
    options.rigor = IOATTN_PATIENT;
    options.time_limit_seconds = 1;
    const ioattn_sdpa_problem p = problem();
    ioattn_plan* plan = nullptr;
    ioattn::check(ioattn_sdpa_plan_create(IOATTN_FORWARD, &p, nullptr, &options, &plan));
    EXPECT_EQ(Json::parse(ioattn::text_of(ioattn_plan_describe, plan))["origin"], "patient");
    ioattn_plan_destroy(plan);
  }
  static std::string origin() {
    const ioattn_sdpa_problem p = problem();
    ioattn_plan* plan = nullptr;
    ioattn::check(ioattn_sdpa_plan_create(IOATTN_FORWARD, &p, nullptr, nullptr, &plan));
    const std::string told = ioattn::text_of(ioattn_plan_describe, plan);
    ioattn_plan_destroy(plan);
    return Json::parse(told)["origin"];
  }
  static Json explained() { return Json::parse(ioattn::wisdom::explain()); }

  std::string directory;
};

TEST_F(WisdomOfFiles, IsReadByItself) {
  const std::string cache = directory + "/cache", file = cache + "/ioattn/wisdom.json";
  in_child("", cache, [&] {
    EXPECT_EQ(origin(), "estimate");
    learn();
    EXPECT_FALSE(fs::exists(file)) << "saved unasked";
    ioattn::wisdom::export_file();
    EXPECT_TRUE(fs::exists(file));
  });
  in_child("", cache, [&] {
    EXPECT_EQ(origin(), "wisdom");
    EXPECT_EQ(explained()["file"], file);
    EXPECT_EQ(explained()["files"].back()["code"], "ok");
    EXPECT_EQ(explained()["files"].back()["records"], 1);
  });
  // The variable names another file, and only that.
  const std::string other = directory + "/other.json";
  in_child(other, cache, [&] {
    EXPECT_EQ(origin(), "estimate");
    EXPECT_EQ(explained()["files"].size(), 1u);
    EXPECT_EQ(explained()["files"][0]["code"], "not_found");
    ioattn::wisdom::import_file(file);
    EXPECT_EQ(origin(), "wisdom");
    ioattn::wisdom::export_file();
    EXPECT_TRUE(fs::exists(other));
  });
  in_child(other, "", [&] { EXPECT_EQ(origin(), "wisdom"); });
  in_child("off", cache, [&] {
    EXPECT_EQ(origin(), "estimate");
    EXPECT_TRUE(explained()["files"].empty());
    EXPECT_EQ(ioattn_wisdom_export_file(nullptr), IOATTN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(ioattn_last_error()).find("off: "), std::string::npos);
    learn();
    EXPECT_EQ(origin(), "wisdom") << "what the process learns it may use";
  });
}

TEST_F(WisdomOfFiles, IsIgnoredWithAReason) {
  const std::string file = directory + "/wisdom.json";
  std::string good;
  in_child(file, "", [&] {
    learn();
    ioattn::wisdom::export_file();
  });
  {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    good = text.str();
  }
  const auto ignored = [&](const std::string& text, const char* code) {
    SCOPED_TRACE(code);
    std::ofstream(file, std::ios::trunc) << text;
    in_child(file, "", [&] {
      EXPECT_EQ(origin(), "estimate");
      const Json about = explained()["files"][0];
      EXPECT_EQ(about["code"], code);
      EXPECT_NE(about["message"], "");
      EXPECT_EQ(about["path"], file);
    });
  };
  ignored(good.substr(0, good.size() - 20), "syntax");
  ignored(std::string(good).replace(good.find("\"cpu\":\""), 7, "\"cpu\":\"not "), "other_cpu");
  ignored(std::string(good).replace(good.find("\"kernels\":\""), 11, "\"kernels\":\"0"),
          "other_kernels");
  ignored(std::string(9 << 20, ' '), "too_large");
  std::ofstream(file, std::ios::trunc) << good;
  in_child(file, "", [&] { EXPECT_EQ(origin(), "wisdom"); });
}

}  // namespace
}  // namespace ioattn_test
