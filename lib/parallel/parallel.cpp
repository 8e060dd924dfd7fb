#include "parallel/parallel.hpp"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <new>

#include "parallel/floating_point.hpp"

namespace ioattn::parallel {
namespace {

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
// looks after itself.
void before_fork() {
#if !defined(__clang__)
  omp_pause_resource_all(omp_pause_hard);
#endif
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

// OpenMP runtimes end the process when they cannot create a thread. So the first region of a size
// is preceded by creating as many threads, all alive at once, and joining them.
bool can_create(int threads) {
  if (threads <= proved) return true;
  if (!may_fork_later()) return false;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_t* handles = new (std::nothrow) pthread_t[static_cast<std::size_t>(threads)];
  if (handles == nullptr) return false;
  pthread_mutex_lock(&gate);
  int created = 0;
  while (created < threads - 1 &&
         pthread_create(&handles[created], nullptr, wait_at_gate, &gate) == 0) {
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

}  // namespace

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
