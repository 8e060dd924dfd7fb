#include <gtest/gtest.h>

#include "cli/support/command.hpp"
#include "machine/machine.hpp"
#include "machine/models.hpp"

// `machine` and `plan` on described machines, from the file to the numbers that users read.
namespace {

using namespace ioattn_cli_test;
using namespace ioattn::machine;
using Json = nlohmann::json;

class DescribedMachines : public testing::TestWithParam<MachineModel> {
 protected:
  void SetUp() override {
    if (!built_with_hwloc()) GTEST_SKIP() << "built without hwloc";
  }
  Environment described() const { return {{"HWLOC_XMLFILE", GetParam().xml()}}; }
  // A described machine counts all of its CPUs.
  const Sight& expected() const { return sight_of(GetParam().name, GetParam().cpus); }
};

TEST_P(DescribedMachines, AreWhatTheCommandReports) {
  const RunResult result = run_ioattn({"machine", "--json"}, described());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json json = result.json();
  const Json& caches = json["caches"];
  ASSERT_EQ(caches.size(), expected().caches.size());
  for (std::size_t i = 0; i < caches.size(); ++i) {
    const DecidingCache& cache = expected().caches[i];
    SCOPED_TRACE(cache.level);
    EXPECT_EQ(caches[i]["level"], "L" + std::to_string(cache.level));
    EXPECT_EQ(caches[i]["size_bytes"], cache.kib * 1024);
    EXPECT_EQ(caches[i]["ways"], cache.ways);
    EXPECT_EQ(caches[i]["line_bytes"], cache.line);
    EXPECT_EQ(caches[i]["sharing_cpus"], cache.sharing_cpus);
    EXPECT_EQ(caches[i]["share_bytes"], cache.share_bytes);
    EXPECT_EQ(caches[i]["M"]["f32"], cache.words_f32);
    EXPECT_EQ(caches[i]["M"]["f64"], cache.words_f32 / 2);
    EXPECT_EQ(caches[i]["source"], "hwloc");
  }
  EXPECT_NE(json["notes"].dump().find("not of this one"), std::string::npos);
}

TEST_P(DescribedMachines, AreWhatIsPlannedFor) {
  const Arguments plan = {"plan", "--json", "--level"};
  for (int level = 1; level <= 3; ++level) {
    const std::string name = "L" + std::to_string(level);
    SCOPED_TRACE(name);
    for (const char* dtype : {"f32", "f64"}) {
      const std::string layer = std::string("layer:n300,d40,") + dtype;
      // Whose blocks would be in L3 were the level not given.
      const std::string sdpa = std::string("sdpa:n8192,d128,") + dtype;
      for (const std::string& problem : {layer, sdpa}) {
        SCOPED_TRACE(problem);
        const RunResult result =
            run_ioattn(plan + Arguments{name, "--problem", problem}, described());
        const std::size_t index = static_cast<std::size_t>(level - 1);
        if (index >= expected().caches.size()) {
          EXPECT_EQ(result.exit_code, 2);
          EXPECT_EQ(result.err, "ioattn: no L3 cache was found\n");
          continue;
        }
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const ioattn::index_t words = expected().caches[index].words_f32;
        EXPECT_EQ(result.json()["level"], name);
        EXPECT_EQ(result.json()["M"], dtype == std::string("f32") ? words : words / 2);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DescribedMachines, testing::ValuesIn(machine_models()),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
