#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data_path.hpp"

// Machines whose caches are known: topologies of tests/data/machines, the same as sysfs lists them,
// and what one thread has of them under different affinity masks.
namespace ioattn::machine {

// One cache each over every list of CPUs, as in sysfs.
struct ModelCaches {
  int level = 0;
  const char* type = "Unified";
  index_t kib = 0;
  int ways = 0;
  int line = 64;
  std::vector<const char*> cpus;
};

struct MachineModel {
  const char* name;  // of the file, without ".xml"
  const char* cpus;
  std::vector<ModelCaches> caches;

  std::string xml() const {
    return ioattn_test::data_path("machines/" + std::string(name) + ".xml");
  }
};

// The cache that decides at one level: that of the allowed CPU with the least share.
struct DecidingCache {
  int level = 0;
  index_t kib = 0;
  int ways = 0;
  int line = 64;
  int sharing_cpus = 0;
  index_t share_bytes = 0;
  index_t words_f32 = 0;  // M; that of f64 is half of it, rounded down
};

struct Sight {
  const char* model;
  const char* allowed;  // the affinity mask, as a list of CPUs
  int cpus = 0;
  std::vector<DecidingCache> caches;  // no others are there
  std::vector<int> differing = {};    // levels of which a note says that CPUs differ
  bool l3_left_out = false;           // as some allowed CPUs have none
};

const std::vector<MachineModel>& machine_models();
const MachineModel& machine_model(const std::string& name);
const std::vector<Sight>& sights();
const Sight& sight_of(const std::string& model, const std::string& allowed);

// Test names: "intel_hybrid_on_0_2".
std::string name_of(const Sight& sight);
std::ostream& operator<<(std::ostream& out, const Sight& sight);
std::ostream& operator<<(std::ostream& out, const MachineModel& model);

}  // namespace ioattn::machine
