#include "api/c/c_boundary.hpp"
#include "api/checks/validate.hpp"
#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "machine/machine.hpp"
#include "theory/bounds.hpp"

using namespace ioattn;
using namespace ioattn::api;

const char* ioattn_status_string(ioattn_status status) {
  return name_of(static_cast<StatusCode>(number_of(status)));
}

const char* ioattn_last_error(void) { return last_error_message(); }

#define IOATTN_STRINGIFY(x) #x
#define IOATTN_DOTTED(a, b, c) IOATTN_STRINGIFY(a) "." IOATTN_STRINGIFY(b) "." IOATTN_STRINGIFY(c)

const char* ioattn_version(void) {
  return IOATTN_DOTTED(IOATTN_VERSION_MAJOR, IOATTN_VERSION_MINOR, IOATTN_VERSION_PATCH);
}

const char* ioattn_isa(int32_t index, int32_t* available) {
  const kernels::KernelList list = kernels::all_kernels();
  if (index < 0 || index >= list.count) return nullptr;
  const Isa isa = list.first[index]->isa;
  if (available != nullptr) {
    *available = 0;
    guarded([&] {
      *available = machine::this_machine().isa.has(isa) ? 1 : 0;
      return Status::ok();
    });
  }
  return name_of(isa);
}

ioattn_status ioattn_selected_isa(const char** name) {
  return guarded([&] {
    if (name == nullptr) return invalid("name is null");
    const kernels::Kernels* kernels = nullptr;
    const Status status = api::selected_kernels(&kernels);
    if (status.is_ok()) *name = name_of(kernels->isa);
    return status;
  });
}

ioattn_status ioattn_machine_cache(int32_t level, ioattn_cache* cache) {
  return guarded([&] {
    const Status known = check_struct(cache, "cache", "ioattn_cache");
    if (!known.is_ok()) return known;
    const machine::CacheLevel* found = machine::this_machine().cache(level);
    if (found == nullptr) {
      return Status::error(StatusCode::unsupported, "no L%d cache was found", level);
    }
    cache->size_bytes = found->size_bytes;
    cache->share_bytes = found->share_bytes;
    cache->words_f32 = machine::fast_memory(*found, DType::f32).words;
    cache->words_f64 = machine::fast_memory(*found, DType::f64).words;
    cache->line_bytes = found->line_bytes;
    cache->ways = found->ways;
    cache->sharing_cpus = found->sharing_cpus;
    cache->source = machine::name_of(found->source);
    return Status::ok();
  });
}

int32_t ioattn_machine_threads(void) {
  int32_t threads = 1;
  guarded([&] {
    threads = granted_threads(0);
    return Status::ok();
  });
  return threads;
}

ioattn_status ioattn_layer_bound(ioattn_pass pass, ioattn_class algorithms, ioattn_tie tie,
                                 int64_t n, int64_t m, int64_t d, int64_t dv, int64_t M,
                                 double* words, const char** name) {
  return guarded([&] {
    if (words == nullptr) return invalid("words is null");
    Pass of = Pass::forward;
    Tie shared = Tie::none;
    Status status = api::pass_of(pass, &of);
    if (!status.is_ok()) return status;
    if (number_of(algorithms) < IOATTN_CLASS_PEBBLE || number_of(algorithms) > IOATTN_CLASS_FMA) {
      return invalid("class is unknown");
    }
    if (n < 1 || m < 1 || d < 1 || dv < 1 || M < 1) return invalid("a size or M is below 1");
    status = api::tie_of(tie, n, m, &shared);
    if (!status.is_ok()) return status;
    const LayerShape shape = {n, m, d, dv, shared, {}};
    status = api::validate_shape(shape);
    if (!status.is_ok()) return status;
    const theory::Bound bound = theory::lower_bound(
        of,
        algorithms == IOATTN_CLASS_PEBBLE ? theory::AlgorithmClass::P : theory::AlgorithmClass::F,
        shape, M);
    *words = bound.words;
    if (name != nullptr) *name = bound.name;
    return Status::ok();
  });
}
