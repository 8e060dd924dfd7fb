#pragma once

#include "base/types.hpp"
#include "instruments/counters/counters.hpp"

// Kernels of known traffic, counted: whether the events of a CPU measure what their file says is
// seen on loops whose traffic is plain arithmetic. Arrays are many times larger than the cache, so
// every line of every array comes in once a pass; lines that are written come in first (write
// allocate) and go back once.
namespace ioattn::instruments {

struct ProofKernel {
  const char* name;
  const char* text;
  int arrays_in;    // lines come in
  int arrays_back;  // lines are written back
  void (*pass)(double* a, const double* b, const double* c, index_t words);
};
// read: s += b, which writes nothing back; copy: a = b; triad: a = b + 3 c.
const std::vector<ProofKernel>& proof_kernels();

struct ProofResult {
  const ProofKernel* kernel = nullptr;
  double expected_lines = 0;
  QuantityValue counted;
  double lines_in = 0;  // that came in, whatever is expected

  std::optional<double> ratio() const;  // counted / expected; none where 0 lines are expected
  bool agrees() const;                  // counted in full, and within the limits below
};
// A few lines more come in for pages, interrupts and neighbours in the cache; a tenth fewer and a
// quarter more are no accident any longer.
constexpr double proof_least = 0.9;
constexpr double proof_most = 1.25;
// Of the lines that came in, where none should go back: an event that counts clean lines as they
// leave has nearly all of them.
constexpr double proof_idle = 0.05;

struct ProofSize {
  index_t words = 0;  // of each array
  int passes = 1;
  int line_bytes = 64;
};

// Each kernel, for each quantity that the file has a formula for. Throws std::bad_alloc.
std::vector<ProofResult> prove(PerfSystem* system, const EventFile& file,
                               const Surroundings& surroundings, const ProofSize& size);

}  // namespace ioattn::instruments
