#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/types.hpp"

// Memory flush against pages that no access to survives. What is written beside an operand can be
// found afterwards; what is only read there cannot, but for these.
namespace ioattn_test {

enum class Side { start, end };  // of the memory that the operand touches
inline constexpr Side sides[] = {Side::start, Side::end};

class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page;
    whole_ = bytes_ + 2 * page;
    base_ = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
    begin_ = static_cast<char*>(base_) + page;
    if (bytes_ == 0) return;  // which the mprotect of an emulator may refuse
    if (mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("mprotect");
  }
  ~GuardedPages() { munmap(base_, whole_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  // Memory for `count` elements, none of which lies beside it.
  template <class T>
  T* place(ioattn::index_t count, Side side) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > bytes_) throw std::length_error("GuardedPages");
    return static_cast<T*>(
        static_cast<void*>(side == Side::start ? begin_ : begin_ + (bytes_ - bytes)));
  }
  // The same, filled with the first elements of `values`.
  template <class T>
  T* place(const T* values, ioattn::index_t count, Side side) {
    T* const at = place<T>(count, side);
    if (count > 0) std::memcpy(at, values, static_cast<std::size_t>(count) * sizeof(T));
    return at;
  }

 private:
  std::size_t bytes_ = 0, whole_ = 0;
  void* base_ = nullptr;
  char* begin_ = nullptr;
};

// From the first row's first element to the last one's last.
constexpr ioattn::index_t span_of(ioattn::index_t rows, ioattn::index_t cols,
                                  ioattn::index_t stride) {
  return rows == 0 || cols == 0 ? 0 : (rows - 1) * stride + cols;
}

// What is running, told by the handler if it faults: the name and what it is about.
struct Running {
  const char* what = "";
  ioattn::index_t numbers[8] = {};
};
inline Running running;

// Tells what was running, then leaves the fault to whoever handled it before: a sanitizer, or the
// system, which ends the program.
class FaultsAreTold {
 public:
  FaultsAreTold() {
    struct sigaction action = {};
    action.sa_handler = tell;
    for (std::size_t i = 0; i < 2; ++i) sigaction(signals[i], &action, &before()[i]);
  }
  ~FaultsAreTold() { restore(); }
  FaultsAreTold(const FaultsAreTold&) = delete;
  FaultsAreTold& operator=(const FaultsAreTold&) = delete;

 private:
  static constexpr int signals[] = {SIGSEGV, SIGBUS};
  static struct sigaction* before() {
    static struct sigaction actions[2];
    return actions;
  }
  static void restore() {
    for (std::size_t i = 0; i < 2; ++i) sigaction(signals[i], &before()[i], nullptr);
  }
  static void tell(int) {
    std::fprintf(stderr, "an access beside an operand: %s:", running.what);
    for (const ioattn::index_t number : running.numbers)
      std::fprintf(stderr, " %lld", static_cast<long long>(number));
    std::fputc('\n', stderr);
    restore();  // the access is repeated
  }
};

}  // namespace ioattn_test
