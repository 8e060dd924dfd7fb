#include "parallel/parallel.hpp"

#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "parallel/floating_point.hpp"

namespace ioattn::parallel {
namespace {

// Whatever compiler built this: libomp has libgomp's functions, too, and where a program has both
// the first one loaded serves all.
bool runs_in_libomp() {
#if defined(__clang__)
  return true;
#else
  Dl_info of_libomp = {}, used = {};
  const auto find = [](const char* name, Dl_info* where) {
    void* const function = dlsym(RTLD_DEFAULT, name);
    return function != nullptr && dladdr(function, where) != 0;
  };
  return find("__kmpc_global_thread_num", &of_libomp) && find("omp_pause_resource_all", &used) &&
         of_libomp.dli_fbase == used.dli_fbase;
#endif
}

void* wait_at_gate(void* gate) {
  pthread_mutex_lock(static_cast<pthread_mutex_t*>(gate));
  pthread_mutex_unlock(static_cast<pthread_mutex_t*>(gate));
  return nullptr;
}

// Threads of the pool of this calling thread, which has its own. libgomp ends those that a region
// leaves out.
thread_local int proved = 1;

// A forked child has none of the pool's threads, yet libgomp waits for them in the child's first
// region, forever (GCC bug 60035). So the pool ends before a fork and the next region makes a new
// one. It is the calling thread's own: those of other threads do not exist in the child. libomp
// looks after itself, and its children end if it has been paused.
void before_fork() {
  static const bool looks_after_itself = runs_in_libomp();
  if (!looks_after_itself) omp_pause_resource_all(omp_pause_hard);
  proved = 1;
}

bool may_fork_later() {
  static std::atomic<bool> registered{false};
  if (!registered.load(std::memory_order_relaxed)) {
    if (pthread_atfork(before_fork, nullptr, nullptr) != 0) return false;
    registered.store(true, std::memory_order_relaxed);  // being called twice would do no harm
  }
  return true;
}

// When this is loaded: regions of the caller's own make the same pool.
[[maybe_unused]] const bool registered_at_load = may_fork_later();

// "256M", "4096", in KiB without a unit; 0 if it is no size.
std::size_t stack_size_of(const char* text) {
  char* unit = nullptr;
  const unsigned long long size = std::strtoull(text, &unit, 10);
  while (*unit == ' ') ++unit;
  const int shift = *unit == 'B' || *unit == 'b'   ? 0
                    : *unit == 'M' || *unit == 'm' ? 20
                    : *unit == 'G' || *unit == 'g' ? 30
                                                   : 10;
  return size >> (63 - shift) == 0 ? static_cast<std::size_t>(size << shift) : 0;
}

// Of threads of OpenMP's runtimes, in bytes, at most; 0: the system's default.
std::size_t stack_size() {
  std::size_t most = 0;
  for (const char* variable : {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"}) {
    const char* const text = std::getenv(variable);
    if (text != nullptr) most = std::max(most, stack_size_of(text));
  }
  return most;
}

class ThreadAttributes {
 public:
  ThreadAttributes() : is_made_(pthread_attr_init(&attributes_) == 0) {
    // A size that is refused the runtime does not take either.
    if (const std::size_t size = stack_size(); is_made_ && size > 0)
      pthread_attr_setstacksize(&attributes_, size);
  }
  ThreadAttributes(const ThreadAttributes&) = delete;
  ThreadAttributes& operator=(const ThreadAttributes&) = delete;
  ~ThreadAttributes() {
    if (is_made_) pthread_attr_destroy(&attributes_);
  }

  const pthread_attr_t* get() const { return is_made_ ? &attributes_ : nullptr; }

 private:
  pthread_attr_t attributes_;
  bool is_made_;
};

// OpenMP runtimes end the process when they cannot create a thread. So the first region of a size
// is preceded by creating as many threads, with stacks like theirs and all alive at once, and
// joining them.
bool can_create(int threads) {
  if (threads <= proved) return true;
  if (!may_fork_later()) return false;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_t* handles = new (std::nothrow) pthread_t[static_cast<std::size_t>(threads)];
  if (handles == nullptr) return false;
  const ThreadAttributes attributes;
  pthread_mutex_lock(&gate);
  int created = 0;
  while (created < threads - 1 &&
         pthread_create(&handles[created], attributes.get(), wait_at_gate, &gate) == 0) {
    ++created;
  }
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < created; ++i) pthread_join(handles[i], nullptr);
  delete[] handles;
  return created == threads - 1;
}

// Apart from run: libomp is called at the beginning of a function that has a region.
void run_in_region(int threads, void (*body)(void*, int), void* context) {
#pragma omp parallel num_threads(threads)
  {
    DefaultFloatingPoint environment;
    body(context, omp_get_thread_num());
  }
}

// A runtime that is asked starts, and takes memory that it may not get: not where nothing bids it
// to bind threads.
bool binds_threads() {
  for (const char* variable : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})
    if (std::getenv(variable) != nullptr) return omp_get_proc_bind() != omp_proc_bind_false;
  return false;
}

// Not omp_get_num_procs(): libomp keeps what its first caller had, and libgomp one set for all.
int cpus_of_affinity() {
  cpu_set_t cpus[64];  // more than any kernel supports
  if (sched_getaffinity(0, sizeof cpus, cpus) != 0) return 1;
  return CPU_COUNT_S(sizeof cpus, cpus);
}

}  // namespace

std::vector<int> bound_cpus() {
  std::vector<int> cpus;
  if (!binds_threads()) return cpus;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    cpus.insert(cpus.end(), of_place.begin(), of_place.end());
  }
  return cpus;
}

// The system is asked once a millisecond: that takes 0.6 microseconds, a pass over 64 queries 12.
int available_cpus() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point asked;
  thread_local int cpus = 0;
  const Clock::time_point now = Clock::now();
  if (cpus == 0 || now - asked > std::chrono::milliseconds(1)) {
    cpus = binds_threads() ? omp_get_num_procs() : cpus_of_affinity();
    asked = now;
  }
  return cpus;
}

void run(int threads, void (*body)(void*, int), void* context) {
  if (threads > 1 && omp_get_level() == 0 && can_create(threads)) {
    run_in_region(threads, body, context);
    proved = threads;
    return;
  }
  DefaultFloatingPoint environment;
  body(context, 0);
}

void OrderedGate::wait_for(index_t turn) {
  constexpr int spins_before_yield = 4000;
  int spins = 0;
  while (turn_.load(std::memory_order_acquire) != turn) {
    if (spins < spins_before_yield) {
      ++spins;
    } else {
      sched_yield();
    }
  }
}

}  // namespace ioattn::parallel
