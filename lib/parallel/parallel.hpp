#pragma once

#include <atomic>
#include <vector>

#include "base/types.hpp"

namespace ioattn::parallel {

// CPUs of the places that OpenMP's runtime binds its threads to, the main thread among them; none
// if it does not.
std::vector<int> bound_cpus();

// CPUs that threads of the caller may use now, or might a millisecond ago: those of its affinity,
// or where they are bound of all places.
int available_cpus();

// Calls body(context, worker) once on each of up to `threads` workers, numbered from 0, and waits.
// Fewer workers run inside another parallel region (one) or when the system refuses new threads
// (one): bodies must share work through a Dispenser. Every worker computes in the default
// floating-point environment; the caller's is restored. The body must not throw.
void run(int threads, void (*body)(void* context, int worker), void* context);

template <class Body>
void run(int threads, Body& body) {
  run(
      threads, [](void* context, int worker) { (*static_cast<Body*>(context))(worker); }, &body);
}

// The same where so many items are handed out: a single one wakes nobody, which would take as long
// as a small pass. For several all workers wake, as libgomp ends those that a region leaves out,
// and makes them anew for the next.
template <class Body>
void run(int threads, index_t items, Body& body) {
  run(items > 1 ? threads : 1, body);
}

// Hands out 0, 1, 2, ... in ascending order, each once.
class Dispenser {
 public:
  index_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<index_t> next_{0};
};

// Calls act(item, worker) for 0, 1, ..., count - 1, each once, by whichever worker is free, and of
// those that run begin(worker) first.
template <class Begin, class Act>
void for_each(int threads, index_t count, const Begin& begin, const Act& act) {
  Dispenser items;
  auto body = [&](int worker) {
    begin(worker);
    for (index_t item = items.take(); item < count; item = items.take()) act(item, worker);
  };
  run(threads, count, body);
}
template <class Act>
void for_each(int threads, index_t count, const Act& act) {
  for_each(
      threads, count, [](int) {}, act);
}

// Lets the holders of 0, 1, 2, ... pass in that order: sums over blocks have the same order of
// additions for every number of threads. Free of deadlock if a worker finishes the number it took
// from a Dispenser before it takes another.
class OrderedGate {
 public:
  void wait_for(index_t turn);
  void pass(index_t turn) { turn_.store(turn + 1, std::memory_order_release); }

 private:
  alignas(128) std::atomic<index_t> turn_{0};
};

}  // namespace ioattn::parallel
