#include "machine/processor.hpp"

#include <cstring>
#include <fstream>

#include "machine/text.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define IOATTN_X86 1
#endif

namespace ioattn::machine {
namespace {

// Printable ASCII without blanks at either end: the names go into text and JSON.
std::string clean(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && (c != ' ' || !result.empty())) result.push_back(c);
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

#ifdef IOATTN_X86
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

bool cpuid(unsigned number, Leaf* leaf) {
  return __get_cpuid(number, &leaf->eax, &leaf->ebx, &leaf->ecx, &leaf->edx) != 0;
}

void ask_cpu(Processor* processor) {
  Leaf leaf;
  if (cpuid(0, &leaf)) {
    const unsigned words[] = {leaf.ebx, leaf.edx, leaf.ecx};
    processor->vendor = clean(std::string(reinterpret_cast<const char*>(words), sizeof words));
  }
  char brand[48] = {};
  for (unsigned part = 0; part < 3; ++part) {
    if (!cpuid(0x80000002u + part, &leaf)) break;
    std::memcpy(brand + sizeof leaf * part, &leaf, sizeof leaf);
  }
  processor->model = clean(std::string(brand, sizeof brand));
  bool f16c = false;  // __builtin_cpu_supports("f16c") is unknown to Clang 14
  if (cpuid(1, &leaf)) {
    f16c = (leaf.ecx >> 29 & 1u) != 0;
    processor->virtual_machine = (leaf.ecx >> 31 & 1u) != 0;
    const unsigned family = leaf.eax >> 8 & 0xfu, model = leaf.eax >> 4 & 0xfu;
    const bool extended = family == 6 || family == 15;
    processor->family = static_cast<int>(family + (family == 15 ? leaf.eax >> 20 & 0xffu : 0));
    processor->model_number = static_cast<int>(model | (extended ? leaf.eax >> 12 & 0xf0u : 0));
    processor->stepping = static_cast<int>(leaf.eax & 0xfu);
  }

  // These also ask whether the kernel saves the registers (XGETBV).
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c) {
    processor->isa.add(Isa::avx2);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    processor->isa.add(Isa::avx512);
    if (__builtin_cpu_supports("avx512bf16")) processor->isa.add(Isa::avx512_bf16);
  }
}
#elif defined(__aarch64__)
void ask_cpu(Processor* processor) { processor->isa.add(Isa::neon); }  // every one has it
#else
void ask_cpu(Processor*) {}
#endif

}  // namespace

void fill_from_cpuinfo(const std::string& path, Processor* processor) {
  std::ifstream file(path);
  const auto fill_name = [](const std::string& value, std::string* name) {
    if (name->empty()) *name = value;
  };
  const auto fill_number = [](const std::string& value, int* number) {
    if (*number == 0) *number = parse_small(value).value_or(0);
  };
  bool begun = false;
  for (std::string line; next_line(&file, &line);) {
    if (trimmed(line).empty() && begun) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    begun = true;
    const std::string_view key = trimmed(std::string_view(line).substr(0, colon));
    const std::string value = clean(line.substr(colon + 1));
    if (key == "vendor_id" || key == "CPU implementer") fill_name(value, &processor->vendor);
    if (key == "model name" || key == "cpu" || key == "uarch" || key == "CPU part") {
      fill_name(value, &processor->model);  // Arm's is a number
    }
    if (key == "cpu family" || key == "CPU architecture") fill_number(value, &processor->family);
    if (key == "model" || key == "CPU part") fill_number(value, &processor->model_number);
    if (key == "stepping") fill_number(value, &processor->stepping);
  }
}

Processor read_processor(const std::string& proc_root) {
  Processor processor;
  ask_cpu(&processor);
  if (processor.vendor.empty() || processor.model.empty()) {
    fill_from_cpuinfo(proc_root + "/cpuinfo", &processor);
  }
  return processor;
}

}  // namespace ioattn::machine
