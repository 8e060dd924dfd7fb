#include "api/known/wisdom_state.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "ioattn/ioattn.h"
#include "machine/machine.hpp"
#include "wisdom/file.hpp"

namespace ioattn::api {
namespace {

using wisdom::Verdict;

// Of whoever changes what is known. A child that was forked while another thread had it takes it
// over: what is published is whole at any time.
class ChangeLock {
 public:
  ChangeLock() {
    const pid_t own = getpid();
    for (;;) {
      pid_t owner = 0;
      if (owner_.compare_exchange_strong(owner, own)) return;
      if (owner != own && owner_.compare_exchange_strong(owner, own)) return;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  ~ChangeLock() { owner_ = 0; }
  ChangeLock(const ChangeLock&) = delete;
  ChangeLock& operator=(const ChangeLock&) = delete;

 private:
  static std::atomic<pid_t> owner_;
};
std::atomic<pid_t> ChangeLock::owner_{0};

std::atomic<const KnownWisdom*> published{nullptr};
std::atomic<std::int64_t> readers{0};
// With the lock. Whoever begins to read now reads what is new: once there was no reader, all that
// is older is nobody's.
void publish(std::unique_ptr<KnownWisdom> known) {
  known->prices.clear();
  for (const wisdom::Environment& environment : known->here)
    for (const DType dtype : types_of_rates)
      known->prices.push_back(price_from(known->wisdom, environment, dtype));
  const KnownWisdom* now = known.release();
  now->older = published;
  published = now;
  if (readers > 0) return;
  for (const KnownWisdom* old = std::exchange(now->older, nullptr); old != nullptr;)
    delete std::exchange(old, old->older);
}

void read_by_itself(const std::string& path, KnownWisdom* known) {
  if (path.empty()) return;
  wisdom::Wisdom read;
  KnownWisdom::File file = {path, wisdom::read_file(path, &read), read.size()};
  if (file.verdict.is_ok()) {
    file.verdict = compare_with_here(read, *known);
    known->wisdom.merge(std::move(read));
  }
  known->files.push_back(std::move(file));
}

std::unique_ptr<KnownWisdom> first_known() {
  auto known = std::make_unique<KnownWisdom>();
  for (int isa = 0; isa < isa_count; ++isa)
    known->here.push_back(environment_of(static_cast<Isa>(isa)));
  known->places = wisdom::places_here();
  read_by_itself(known->places.system, known.get());
  read_by_itself(known->places.user, known.get());
  return known;
}

void publish_first() {
  const ChangeLock lock;
  if (published == nullptr) publish(first_known());
}

std::string text_of_cpu(const machine::Machine& machine) {
  return machine.vendor + " " + std::to_string(machine.family) + " " +
         std::to_string(machine.model_number) + " " + std::to_string(machine.stepping) + " " +
         machine.model;
}

std::string text_of_caches(const machine::Machine& machine) {
  std::string text;
  for (const machine::CacheLevel& cache : machine.caches) {
    text += (text.empty() ? "L" : " L") + std::to_string(cache.level) + ":" +
            std::to_string(cache.size_bytes) + "/" + std::to_string(cache.ways) + "/" +
            std::to_string(cache.share_bytes);
  }
  return text;
}

}  // namespace

wisdom::Environment environment_of(Isa isa) {
  const machine::Machine& machine = machine::this_machine();
  const std::string version = std::to_string(IOATTN_VERSION_MAJOR) + "." +
                              std::to_string(IOATTN_VERSION_MINOR) + "." +
                              std::to_string(IOATTN_VERSION_PATCH);
  return {version, IOATTN_KERNEL_HASH, name_of(isa), text_of_cpu(machine), text_of_caches(machine)};
}

std::string date_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

WisdomReading::WisdomReading() {
  ++readers;
  known_ = published;
  if (known_ != nullptr) return;
  --readers;
  publish_first();  // may throw
  ++readers;
  known_ = published;
}

WisdomReading::~WisdomReading() { --readers; }

void change_wisdom(const std::function<void(wisdom::Wisdom*)>& change) {
  if (published == nullptr) publish_first();
  const ChangeLock lock;
  auto changed = std::make_unique<KnownWisdom>(*published.load());
  change(&changed->wisdom);
  ++changed->generation;
  publish(std::move(changed));
}

Verdict compare_with_here(const wisdom::Wisdom& wisdom, const KnownWisdom& known) {
  Verdict first;
  for (const auto& [environment, part] : wisdom.known()) {
    // Wisdom of another instruction set of this machine is of use once IOATTN_ISA names it.
    for (const wisdom::Environment& here : known.here)
      if (environment == here) return {};
    Verdict best;
    for (const wisdom::Environment& here : known.here) {
      Verdict verdict = wisdom::compare(environment, here);
      if (best.is_ok() || verdict.reason > best.reason) best = std::move(verdict);
    }
    if (first.is_ok()) first = std::move(best);
  }
  return first;
}

}  // namespace ioattn::api
