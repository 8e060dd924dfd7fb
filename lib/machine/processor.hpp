#pragma once

#include <string>

#include "base/isa.hpp"

namespace ioattn::machine {

struct Processor {
  std::string vendor;
  std::string model;
  int family = 0, model_number = 0, stepping = 0;  // x86 only: CPUID leaf 1
  bool virtual_machine = false;                    // x86 only: CPUID leaf 1, ECX bit 31
  IsaSet isa;  // what the CPU has and the kernel saves: bits that may be used
};

// CPUID on x86, else <proc_root>/cpuinfo for the names (numbers on Arm); "" = unknown.
Processor read_processor(const std::string& proc_root);

// Names from a file in the form of /proc/cpuinfo ("key : value"), where still empty.
void fill_names(const std::string& cpuinfo_path, Processor* processor);

}  // namespace ioattn::machine
