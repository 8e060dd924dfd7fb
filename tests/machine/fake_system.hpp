#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "machine/machine.hpp"

namespace ioattn::machine {

// A temporary folder that plays /sys and /proc, and an environment put back afterwards. Starts with
// neither files nor variables that detect() looks at.
class FakeSystem : public testing::Test {
 protected:
  FakeSystem() {
    std::string path = testing::TempDir() + "/ioattn_machine_XXXXXX";
    if (mkdtemp(path.data()) != nullptr) root_ = path;
    for (const char* name : {"IOATTN_L1", "IOATTN_L2", "IOATTN_L3", "HWLOC_XMLFILE",
                             "HWLOC_THISSYSTEM", "HWLOC_COMPONENTS"}) {
      const char* value = getenv(name);
      saved_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
    options_.sysfs_root = root_ + "/sys";
    options_.proc_root = root_ + "/proc";
    options_.use_hwloc = false;
    options_.allowed_cpus = {0, 1, 2, 3};
  }
  ~FakeSystem() override {
    for (const auto& [name, value] : saved_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }

  void SetUp() override { ASSERT_FALSE(root_.empty()) << "no temporary folder"; }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
  }

  void remove(const std::string& path) {
    ASSERT_TRUE(std::filesystem::remove(root_ + "/" + path)) << path;
  }

  void write_cache(int cpu, int index, int level, const std::string& type, const std::string& size,
                   const std::string& sharers, int line = 64, int ways = 8) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" +
                               std::to_string(index) + "/";
    write(folder + "level", std::to_string(level) + "\n");
    write(folder + "type", type + "\n");
    write(folder + "size", size + "\n");
    write(folder + "shared_cpu_list", sharers + "\n");
    write(folder + "coherency_line_size", std::to_string(line) + "\n");
    write(folder + "ways_of_associativity", std::to_string(ways) + "\n");
  }

  // Two cores of two threads, one L3 that two CPUs of others share too.
  void write_two_cores() {
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string core = cpu < 2 ? "0-1" : "2-3";
      write_cache(cpu, 0, 1, "Data", "48K", core);
      write_cache(cpu, 1, 1, "Instruction", "8K", core);
      write_cache(cpu, 2, 2, "Unified", "1M", core);
      write_cache(cpu, 3, 3, "Unified", "32768K", "0-5");
    }
  }

  Machine found() const { return detect(options_); }

  static bool noted(const Machine& machine, const std::string& part) {
    return std::any_of(machine.notes.begin(), machine.notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    });
  }

  static void expect_cache(const Machine& machine, int level, index_t size, int sharing,
                           Source source) {
    SCOPED_TRACE(level);
    const CacheLevel* cache = machine.cache(level);
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->level, level);
    EXPECT_EQ(cache->size_bytes, size);
    EXPECT_EQ(cache->sharing_cpus, sharing);
    EXPECT_EQ(cache->share_bytes, sharing == 0 ? size : size / sharing);
    EXPECT_EQ(cache->source, source) << name_of(cache->source);
  }

  DetectOptions options_;

 private:
  std::string root_;
  std::map<std::string, std::optional<std::string>> saved_;
};

}  // namespace ioattn::machine
