// What the hardware counted in the plot and the page of `ioattn measure`.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <type_traits>

#include "cli/support/gnuplot.hpp"
#include "tune/command_error.hpp"
#include "tune/files/text_file.hpp"
#include "tune/traffic/counter_report.hpp"
#include "tune/traffic/eviction.hpp"
#include "tune/traffic/hardware_traffic.hpp"
#include "tune/traffic/traffic_html.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using tune::Traffic;

// By loads alone: lines that it dirtied would be written back while a pass is counted.
static_assert(std::is_invocable_v<const tune::Eviction&>);

// Fills and write-backs as counted, in words, at the M of the plan.
TEST(Traffic, MarksWhatTheHardwareCounted) {
  Traffic traffic;
  traffic.plan.level = "L2";
  traffic.plan.M = 1000;
  tune::HardwareTraffic hardware;
  hardware.fills.level = hardware.write_backs.level = 2;
  hardware.write_backs.kind = instruments::CacheTraffic::write_backs;
  EXPECT_FALSE(hardware_marker(hardware, traffic, DType::f32).has_value());

  const double words_per_line = tune::line_bytes_of(2) / 4.0;
  hardware.fills.lines = 500;
  hardware.fills.validity = instruments::Validity::exact;
  auto marker = hardware_marker(hardware, traffic, DType::f32);
  ASSERT_TRUE(marker.has_value());
  EXPECT_EQ(marker->title, "hardware, fills only, L2");
  EXPECT_EQ(marker->M, 1000);
  EXPECT_EQ(marker->words, 500 * words_per_line);

  hardware.write_backs.lines = 70;
  hardware.write_backs.validity = instruments::Validity::multiplexed;
  marker = hardware_marker(hardware, traffic, DType::f32);
  ASSERT_TRUE(marker.has_value());
  EXPECT_EQ(marker->title, "hardware, fills + write-backs (multiplexed), L2");
  EXPECT_EQ(marker->words, 570 * words_per_line);
}

// As simulated caches are: score tiles, made again and again in one buffer, count once.
TEST(Traffic, HoldsWhatTheHardwareCountedAgainstTheSameWords) {
  Traffic traffic;
  traffic.count = {1000, 200, 90000, 0};
  traffic.created_memory = 600;
  tune::HardwareTraffic hardware;
  hardware.fills.level = hardware.write_backs.level = 2;
  hardware.write_backs.kind = instruments::CacheTraffic::write_backs;
  hardware.fills.lines = hardware.write_backs.lines = 100;
  const double words = 100 * tune::line_bytes_of(2) / 4.0;
  const tune::Json json = hardware_json(hardware, traffic, DType::f32);
  EXPECT_EQ(json["fills"]["ratio"], words / 1600);
  EXPECT_EQ(json["write_backs"]["ratio"], words / 800);
}

TEST(Traffic, DrawsMarkersAndTheTextOfTheReport) {
  IOATTN_SKIP_WITHOUT_GNUPLOT();
  const std::string path = testing::TempDir() + "ioattn_markers_" + std::to_string(getpid());
  tune::TrafficReport report;
  report.levels.emplace_back();
  report.levels[0].plan.M = 10;
  report.levels[0].count.reads = 100;
  tune::write_html(report, {{"a_marker@L2", 20, 3000}}, "the text & more", path);
  const std::string html = tune::read_text(path);
  std::filesystem::remove(path);
  EXPECT_NE(html.find("a_marker@L2"), std::string::npos) << html;
  EXPECT_NE(html.find("<pre>\nthe text &amp; more</pre>"), std::string::npos) << html;
}

}  // namespace
}  // namespace ioattn_test
