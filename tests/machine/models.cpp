#include "machine/models.hpp"

#include <algorithm>
#include <stdexcept>

namespace ioattn::machine {

const std::vector<MachineModel>& machine_models() {
  static const std::vector<MachineModel> models = {
      {"intel_smt",
       "0-7",
       {{1, "Data", 48, 12, 64, {"0-1", "2-3", "4-5", "6-7"}},
        {1, "Instruction", 32, 8, 64, {"0-1", "2-3", "4-5", "6-7"}},
        {2, "Unified", 1280, 20, 64, {"0-1", "2-3", "4-5", "6-7"}},
        {3, "Unified", 12288, 12, 64, {"0-7"}}}},
      {"intel_hybrid",
       "0-9",
       {{1, "Data", 48, 12, 64, {"0-1", "2-3"}},
        {1, "Data", 32, 8, 64, {"4", "5", "6", "7", "8", "9"}},
        {1, "Instruction", 32, 8, 64, {"0-1", "2-3"}},
        {1, "Instruction", 64, 8, 64, {"4", "5", "6", "7", "8", "9"}},
        {2, "Unified", 1280, 10, 64, {"0-1", "2-3"}},
        {2, "Unified", 2048, 16, 64, {"4-7", "8-9"}},
        {3, "Unified", 12288, 12, 64, {"0-7"}}}},
      {"amd_two_l3",
       "0-15",
       {{1, "Data", 32, 8, 64, {"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}},
        {2, "Unified", 512, 8, 64, {"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}},
        {3, "Unified", 98304, 16, 64, {"0-7"}},
        {3, "Unified", 32768, 16, 64, {"8-15"}}}},
      {"arm_big_little",
       "0-7",
       {{1, "Data", 32, 4, 64, {"0", "1", "2", "3"}},
        {1, "Data", 64, 4, 64, {"4", "5", "6", "7"}},
        {2, "Unified", 128, 4, 64, {"0", "1", "2", "3"}},
        {2, "Unified", 512, 8, 64, {"4", "5", "6", "7"}},
        {3, "Unified", 4096, 16, 64, {"0-7"}}}},
      {"arm_neoverse",
       "0-7",
       {{1, "Data", 64, 4, 64, {"0", "1", "2", "3", "4", "5", "6", "7"}},
        {2, "Unified", 1024, 8, 64, {"0", "1", "2", "3", "4", "5", "6", "7"}}}},
      {"arm_wide_lines",
       "0-23",
       {{1, "Data", 64, 4, 256, {"0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",
                                 "8",  "9",  "10", "11", "12", "13", "14", "15",
                                 "16", "17", "18", "19", "20", "21", "22", "23"}},
        {2, "Unified", 8192, 16, 256, {"0-11", "12-23"}}}},
      {"captured_kvm",
       "0-1",
       {{1, "Data", 32, 8, 64, {"0", "1"}},
        {1, "Instruction", 32, 8, 64, {"0", "1"}},
        {2, "Unified", 512, 8, 64, {"0", "1"}},
        {3, "Unified", 32768, 16, 64, {"0-1"}}}}};
  return models;
}

const MachineModel& machine_model(const std::string& name) {
  for (const MachineModel& model : machine_models()) {
    if (model.name == name) return model;
  }
  throw std::invalid_argument("no machine model " + name);
}

// M = share x 1/2 / 4 for L1, x 3/4 / 4 for L2 and L3.
const Sight& sight_of(const std::string& model, const std::string& allowed) {
  for (const Sight& sight : sights()) {
    if (sight.model == model && sight.allowed == allowed) return sight;
  }
  throw std::invalid_argument("no sight of " + model + " on " + allowed);
}

const std::vector<Sight>& sights() {
  static const std::vector<Sight> all = {
      // All threads of all cores, then one per core.
      {"intel_smt",
       "0-7",
       8,
       {{1, 48, 12, 64, 2, 24576, 3072},
        {2, 1280, 20, 64, 2, 655360, 122880},
        {3, 12288, 12, 64, 8, 1572864, 294912}}},
      {"intel_smt",
       "0,2,4,6",
       4,
       {{1, 48, 12, 64, 1, 49152, 6144},
        {2, 1280, 20, 64, 1, 1310720, 245760},
        {3, 12288, 12, 64, 4, 3145728, 589824}}},
      // P-cores 0-3, E-cores 4-7, E-cores without L3 8-9. A thread of a busy P-core has less L1,
      // one
      // of a busy group of E-cores has less L2.
      {"intel_hybrid",
       "0-9",
       10,
       {{1, 48, 12, 64, 2, 24576, 3072}, {2, 2048, 16, 64, 4, 524288, 98304}},
       {1, 2},
       true},
      {"intel_hybrid",
       "0-7",
       8,
       {{1, 48, 12, 64, 2, 24576, 3072},
        {2, 2048, 16, 64, 4, 524288, 98304},
        {3, 12288, 12, 64, 8, 1572864, 294912}},
       {1, 2}},
      {"intel_hybrid",
       "0-3",
       4,
       {{1, 48, 12, 64, 2, 24576, 3072},
        {2, 1280, 10, 64, 2, 655360, 122880},
        {3, 12288, 12, 64, 4, 3145728, 589824}}},
      {"intel_hybrid",
       "0,2",
       2,
       {{1, 48, 12, 64, 1, 49152, 6144},
        {2, 1280, 10, 64, 1, 1310720, 245760},
        {3, 12288, 12, 64, 2, 6291456, 1179648}}},
      {"intel_hybrid",
       "4-7",
       4,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 2048, 16, 64, 4, 524288, 98304},
        {3, 12288, 12, 64, 4, 3145728, 589824}}},
      {"intel_hybrid",  // one P-core and one E-core: the latter decides L1, the former L2
       "0,4",
       2,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 1280, 10, 64, 1, 1310720, 245760},
        {3, 12288, 12, 64, 2, 6291456, 1179648}},
       {1, 2}},
      {"intel_hybrid",  // a second E-core beside it: now they decide both
       "0,4,5",
       3,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 2048, 16, 64, 2, 1048576, 196608},
        {3, 12288, 12, 64, 3, 4194304, 786432}},
       {1, 2}},
      {"intel_hybrid",  // P-cores with one and with two busy threads
       "0-2,4",
       4,
       {{1, 48, 12, 64, 2, 24576, 3072},
        {2, 1280, 10, 64, 2, 655360, 122880},
        {3, 12288, 12, 64, 4, 3145728, 589824}},
       {1, 2}},
      {"intel_hybrid",
       "8-9",
       2,
       {{1, 32, 8, 64, 1, 32768, 4096}, {2, 2048, 16, 64, 2, 1048576, 196608}}},
      // Shares of the larger and of the smaller L3.
      {"amd_two_l3",
       "0-15",
       16,
       {{1, 32, 8, 64, 2, 16384, 2048},
        {2, 512, 8, 64, 2, 262144, 49152},
        {3, 32768, 16, 64, 8, 4194304, 786432}},
       {3}},
      {"amd_two_l3",
       "0-7",
       8,
       {{1, 32, 8, 64, 2, 16384, 2048},
        {2, 512, 8, 64, 2, 262144, 49152},
        {3, 98304, 16, 64, 8, 12582912, 2359296}}},
      {"amd_two_l3",  // the larger one has less for each
       "0,2,4,6,8",
       5,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 512, 8, 64, 1, 524288, 98304},
        {3, 98304, 16, 64, 4, 25165824, 4718592}},
       {3}},
      {"amd_two_l3",  // what a container may be left with
       "0-5,8",
       7,
       {{1, 32, 8, 64, 2, 16384, 2048},
        {2, 512, 8, 64, 2, 262144, 49152},
        {3, 98304, 16, 64, 6, 16777216, 3145728}},
       {1, 2, 3}},
      {"arm_big_little",
       "0-7",
       8,
       {{1, 32, 4, 64, 1, 32768, 4096},
        {2, 128, 4, 64, 1, 131072, 24576},
        {3, 4096, 16, 64, 8, 524288, 98304}},
       {1, 2}},
      {"arm_big_little",
       "4-7",
       4,
       {{1, 64, 4, 64, 1, 65536, 8192},
        {2, 512, 8, 64, 1, 524288, 98304},
        {3, 4096, 16, 64, 4, 1048576, 196608}}},
      {"arm_big_little",
       "3,4",
       2,
       {{1, 32, 4, 64, 1, 32768, 4096},
        {2, 128, 4, 64, 1, 131072, 24576},
        {3, 4096, 16, 64, 2, 2097152, 393216}},
       {1, 2}},
      {"arm_neoverse",
       "0-7",
       8,
       {{1, 64, 4, 64, 1, 65536, 8192}, {2, 1024, 8, 64, 1, 1048576, 196608}}},
      // 8 MiB / 12 is no whole number of bytes, nor 3/4 of it one of words.
      {"arm_wide_lines",
       "0-23",
       24,
       {{1, 64, 4, 256, 1, 65536, 8192}, {2, 8192, 16, 256, 12, 699050, 131071}}},
      {"arm_wide_lines",
       "0-3,12-13",
       6,
       {{1, 64, 4, 256, 1, 65536, 8192}, {2, 8192, 16, 256, 4, 2097152, 393216}},
       {2}},
      {"captured_kvm",
       "0-1",
       2,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 512, 8, 64, 1, 524288, 98304},
        {3, 32768, 16, 64, 2, 16777216, 3145728}}},
      {"captured_kvm",
       "1",
       1,
       {{1, 32, 8, 64, 1, 32768, 4096},
        {2, 512, 8, 64, 1, 524288, 98304},
        {3, 32768, 16, 64, 1, 33554432, 6291456}}},
  };
  return all;
}

std::string name_of(const Sight& sight) {
  std::string name = std::string(sight.model) + "_on_" + sight.allowed;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ','; }, '_');
  const std::size_t dash = std::string::npos;
  for (std::size_t at = name.find('-'); at != dash; at = name.find('-', at)) {
    name.replace(at, 1, "to");
  }
  return name;
}

std::ostream& operator<<(std::ostream& out, const Sight& sight) { return out << name_of(sight); }

std::ostream& operator<<(std::ostream& out, const MachineModel& model) { return out << model.name; }

}  // namespace ioattn::machine
