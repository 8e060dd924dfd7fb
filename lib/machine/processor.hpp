#pragma once

#include <string>

#include "base/isa.hpp"

namespace ioattn::machine {

struct Processor {
  std::string vendor;
  std::string model;
  int family = 0, model_number = 0;  // as in CpuId; 0 = unknown
  int stepping = 0;                  // x86 only
  bool virtual_machine = false;      // x86 only: CPUID leaf 1, ECX bit 31
  IsaSet isa;                        // what the CPU has and the kernel saves: bits that may be used
};

// CPUID on x86; what it does not say from <proc_root>/cpuinfo. "" = unknown.
Processor read_processor(const std::string& proc_root);

// What is still empty, from the first CPU of a file in the form of /proc/cpuinfo ("key : value").
void fill_from_cpuinfo(const std::string& path, Processor* processor);

}  // namespace ioattn::machine
