#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ioattn::machine {

// Numbers that tell microarchitectures apart: vendor, family and model of x86 ("GenuineIntel", 6,
// 0x55), implementer and part of Arm ("0x41", 8, 0xd0c: the family is that of the architecture).
struct CpuId {
  std::string vendor;  // "" = unknown
  int family = 0;
  int model = 0;
};

struct Machine;
CpuId cpu_id(const Machine& machine);

// A vendor, a family and ranges of models; no range: any model.
struct CpuPattern {
  struct Range {
    int first = 0, last = 0;
  };
  std::string vendor;
  int family = 0;
  std::vector<Range> models;
};

// "AuthenticAMD 0x19 0x00-0x0f 0x21": decimal, or hexadecimal after 0x.
bool parse_cpu_pattern(std::string_view text, CpuPattern* pattern);
bool matches(const CpuId& cpu, const CpuPattern& pattern);

}  // namespace ioattn::machine
