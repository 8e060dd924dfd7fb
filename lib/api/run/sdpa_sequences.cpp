#include "api/run/sdpa_sequences.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <tuple>

#include "api/array_types.hpp"
#include "api/checks/validate_sdpa.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/run/sdpa_run.hpp"
#include "api/run_options.hpp"
#include "base/checked_size.hpp"
#include "parallel/parallel.hpp"

namespace ioattn::api {
namespace {

// Of several that fail at once the first one's status, whoever is noticed first.
class FirstFailure {
 public:
  void note(index_t of, const Status& status) {
    if (status.is_ok()) return;
    const std::scoped_lock lock(mutex_);
    if (of >= first_) return;
    first_ = of;
    status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  std::mutex mutex_;
  index_t first_ = std::numeric_limits<index_t>::max();
  Status status_;
};

// Rows of the sequence; a head of LSE is one row.
template <class T>
TensorView<T> rows_of(TensorView<T> packed, index_t first, index_t count) {
  if (packed.data != nullptr) packed.data += first * packed.row_stride;
  packed.rows = count;
  return packed;
}
template <class T>
TensorView<T> columns_of(TensorView<T> packed, index_t first, index_t count) {
  if (packed.data != nullptr) packed.data += first;
  packed.cols = count;
  return packed;
}

// Where a sequence is in the packed arrays.
struct Place {
  index_t first_query, n, first_key, m;

  template <class T>
  TensorView<T> queries(const TensorView<T>& packed) const {
    return rows_of(packed, first_query, n);
  }
  template <class T>
  TensorView<T> keys(const TensorView<T>& packed) const {
    return rows_of(packed, first_key, m);
  }
  template <class T>
  TensorView<T> lse(const TensorView<T>& packed) const {
    return columns_of(packed, first_query, n);
  }
  template <class T>
  TensorView<T> scores(const TensorView<T>& packed) const {
    return columns_of(queries(packed), first_key, m);
  }
  template <class T>
  SdpaInputs<T> inputs(const SdpaInputs<T>& in) const {
    return {queries(in.q), keys(in.k), keys(in.v), scores(in.bias)};
  }
};

// Of a limit of scratch memory, by queries: sequences run beside each other.
index_t share_of(index_t limit, index_t queries, index_t all) {
  if (limit < 0 || all == 0) return limit;
  return static_cast<index_t>(static_cast<__int128>(limit) * queries / all);
}

// Queries of all heads; none where there is nothing to compute.
index_t computed_queries(const SdpaShape& shape) {
  return is_trivial(shape) ? 0 : shape.heads * shape.n;
}

index_t computed_queries(std::span<const Sequence> sequences) {
  index_t queries = 0;
  for (const Sequence& s : sequences) queries += computed_queries(s.problem.shape);
  return queries;
}

// Plans every sequence as if it were alone; no set: the forward pass.
Status plan_work(const std::optional<SdpaSet>& set, PackedWork* work) {
  return work->plan([&](std::size_t, PackedShape* shape) {
    const SdpaProblem& problem = shape->problem;
    const Status status = plan_sdpa(problem, set, shape->options, &shape->plan);
    return status.is_ok() ? workspace_of(problem, shape->plan, set, shape->threads, &shape->bytes)
                          : status;
  });
}

}  // namespace

Status check_scratch(std::span<const Sequence> sequences, const SdpaSet& set, DType dtype,
                     index_t limit) {
  return plan::check_scratch(set, computed_queries(sequences), dtype, limit);
}

PackedWork::PackedWork(std::span<const Sequence> sequences, const RunOptions& options) {
  index_t total = 0;
  for (const Sequence& s : sequences) total += work_of(s.problem.shape);
  const index_t queries = computed_queries(sequences);
  threads_ = threads_for(total, options);
  // Long ones first: what is left at the end is short.
  const auto rank = [&](std::size_t i) {
    const SdpaShape& shape = sequences[i].problem.shape;
    return std::tuple(-work_of(shape), -shape.n, -shape.m, i);
  };
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  jobs_.reserve(order.size());
  for (const std::size_t i : order) {
    const Sequence& s = sequences[i];
    if (shapes_.empty() || !(shapes_.back().problem == s.problem)) {
      PackedShape& shape = shapes_.emplace_back();
      shape.problem = s.problem;
      shape.options = options;
      const index_t fma = work_of(s.problem.shape);
      if (fma <= total / (index_t(4) * threads_)) shape.options.threads = 1;
      shape.options.memory_limit_bytes =
          share_of(options.memory_limit_bytes, computed_queries(s.problem.shape), queries);
      shape.threads = threads_for(fma, shape.options);
    }
    ++shapes_.back().count;
    jobs_.push_back({s.first_query, s.first_key, shapes_.size() - 1});
  }
}

Status PackedWork::plan(const PlanShape& plan) {
  FirstFailure failure;
  // What a worker runs must not throw.
  const auto plan_one = [&](index_t i) {
    try {
      return plan(static_cast<std::size_t>(i), &shapes_[static_cast<std::size_t>(i)]);
    } catch (const std::bad_alloc&) {
      return Status::error(StatusCode::out_of_memory, "out of memory");
    } catch (...) {
      return Status::error(StatusCode::internal, "unexpected exception");
    }
  };
  parallel::for_each(threads_, static_cast<index_t>(shapes_.size()),
                     [&](index_t i, int) { failure.note(i, plan_one(i)); });
  if (!failure.status().is_ok()) return failure.status();
  index_t alone = 0;
  for (const PackedShape& shape : shapes_) {
    index_t& most = shape.threads > 1 ? alone : shared_;
    most = std::max(most, shape.bytes);
  }
  const CheckedSize shared = CheckedSize(shared_) * CheckedSize(threads_);
  if (shared.overflow()) {
    return Status::error(StatusCode::size_overflow, "the workspace does not fit in 64 bits");
  }
  bytes_ = std::max(alone, shared.value());
  return Status::ok();
}

// Calls run(SdpaRun, Place) for every sequence.
template <class Run>
Status PackedWork::run(schedules::CallerMemory* caller, const Run& run) const {
  schedules::WorkspaceLayout layout;
  layout.add<std::byte>(bytes_);
  schedules::WorkspaceMemory memory;
  const Status allocated = layout.allocate(caller, &memory);
  if (!allocated.is_ok()) return allocated;

  FirstFailure failure;
  const auto run_job = [&](index_t i, index_t offset) {
    const Job& job = jobs_[static_cast<std::size_t>(i)];
    const PackedShape& shape = shapes_[job.shape];
    schedules::CallerMemory lent(static_cast<std::byte*>(memory.data()) + offset, shape.bytes);
    const SdpaRun of = {shape.problem, shape.plan, {shape.threads, nullptr, &lent}};
    const SdpaShape& sizes = shape.problem.shape;
    failure.note(i, run(of, Place{job.first_query, sizes.n, job.first_key, sizes.m}));
  };
  const auto count = static_cast<index_t>(jobs_.size());
  index_t first = 0;
  for (; first < count; ++first) {
    if (shapes_[jobs_[static_cast<std::size_t>(first)].shape].threads == 1) break;
    run_job(first, 0);
  }
  parallel::for_each(threads_, count - first,
                     [&](index_t i, int worker) { run_job(first + i, worker * shared_); });
  return failure.status();
}

template <class S>
Status PackedWork::forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                           schedules::CallerMemory* memory, OverflowCounts* overflows) const {
  return run(memory, [&](SdpaRun of, const Place& at) {
    of.execution.overflows = overflows;
    return run_forward<S>(of, at.inputs(inputs), at.queries(o), at.lse(lse));
  });
}

template <class S, class G>
Status PackedWork::backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                            const SdpaGradients<G>& gradients, schedules::CallerMemory* memory,
                            OverflowCounts* overflows) const {
  return run(memory, [&](SdpaRun of, const Place& at) {
    of.execution.overflows = overflows;
    const SdpaForwardResults<S> results = {at.queries(forward.d_o), at.queries(forward.o),
                                           at.lse(forward.lse)};
    const SdpaGradients<G> out = {at.queries(gradients.dq), at.keys(gradients.dk),
                                  at.keys(gradients.dv), gradients.accumulate,
                                  at.scores(gradients.d_bias)};
    return run_backward<S, G>(of, at.inputs(inputs), results, out);
  });
}

template <class S>
Status packed_forward(std::span<const Sequence> sequences, const RunOptions& options,
                      const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse) {
  Status status = check_forward(inputs, o, lse);
  if (!status.is_ok()) return status;
  PackedWork work(sequences, options);
  status = plan_work(std::nullopt, &work);
  return status.is_ok() ? work.forward<S>(inputs, o, lse) : status;
}

template <class S, class G>
Status packed_backward(std::span<const Sequence> sequences, const RunOptions& options,
                       const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                       const SdpaGradients<G>& gradients) {
  Status status = check_backward(inputs, forward, gradients);
  if (!status.is_ok()) return status;
  const SdpaSet set = set_of<S>(gradients);
  status = check_scratch(sequences, set, dtype_of<S>::value, options.memory_limit_bytes);
  if (!status.is_ok()) return status;
  PackedWork work(sequences, options);
  status = plan_work(set, &work);
  return status.is_ok() ? work.backward<S, G>(inputs, forward, gradients) : status;
}

#define IOATTN_INSTANTIATE(S)                                                                      \
  template Status PackedWork::forward(const SdpaInputs<S>&, TensorView<S>, TensorView<Compute<S>>, \
                                      schedules::CallerMemory*, OverflowCounts*) const;            \
  template Status packed_forward(std::span<const Sequence>, const RunOptions&,                     \
                                 const SdpaInputs<S>&, TensorView<S>, TensorView<Compute<S>>)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                           \
  template Status PackedWork::backward(const SdpaInputs<S>&, const SdpaForwardResults<S>&, \
                                       const SdpaGradients<G>&, schedules::CallerMemory*,  \
                                       OverflowCounts*) const;                             \
  template Status packed_backward(std::span<const Sequence>, const RunOptions&,            \
                                  const SdpaInputs<S>&, const SdpaForwardResults<S>&,      \
                                  const SdpaGradients<G>&)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
