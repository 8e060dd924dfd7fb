#include "api/sdpa_sequences.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "api/array_types.hpp"
#include "api/sdpa_run.hpp"
#include "parallel/parallel.hpp"

namespace ioattn::api {
namespace {

// A sequence on its way. Only what is left to one worker runs beside others.
struct Job {
  const Sequence* sequence = nullptr;
  index_t fma = 0;
  plan::SdpaPlan plan;
  int threads = 1;
  index_t bytes = 0;
  Status status;
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

template <class T>
SdpaInputs<T> inputs_of(const SdpaInputs<T>& in, const Sequence& s) {
  const SdpaShape& shape = s.problem.shape;
  return {rows_of(in.q, s.first_query, shape.n), rows_of(in.k, s.first_key, shape.m),
          rows_of(in.v, s.first_key, shape.m)};
}

class PackedRun {
 public:
  PackedRun(std::span<const Sequence> sequences, const std::optional<SdpaSet>& set,
            const RunOptions& options)
      : set_(set), options_(options), jobs_(sequences.size()) {
    index_t total = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      jobs_[i].sequence = &sequences[i];
      jobs_[i].fma = work_of(sequences[i].problem.shape);
      total += jobs_[i].fma;
      queries_ += sequences[i].problem.shape.n;
    }
    threads_ = threads_for(total, options);
    for (Job& job : jobs_) {
      const bool is_long = job.fma > total / (index_t(4) * threads_);
      job.threads = is_long ? threads_for(job.fma, options) : 1;
    }
    // Long ones first: what is left at the end is short.
    std::sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) {
      return a.fma != b.fma ? a.fma > b.fma : a.sequence < b.sequence;
    });
  }

  // Plans every sequence, then calls run(job, memory) for each.
  template <class Run>
  Status run(const Run& run) {
    share_out(jobs_.begin(), [this](Job& job, int) { job.status = plan_job(&job); });
    index_t alone = 0, shared = 0;
    for (const Job& job : jobs_) {
      if (!job.status.is_ok()) return job.status;
      index_t& most = job.threads > 1 ? alone : shared;
      most = std::max(most, job.bytes);
    }
    schedules::WorkspaceLayout layout;
    layout.add<std::byte>(std::max(alone, threads_ * shared));
    schedules::WorkspaceMemory memory;
    const Status allocated = layout.allocate(nullptr, &memory);
    if (!allocated.is_ok()) return allocated;

    const auto lend_and_run = [&](Job& job, index_t offset) {
      schedules::CallerMemory lent(static_cast<std::byte*>(memory.data()) + offset, job.bytes);
      job.status = run(job, &lent);
    };
    auto job = jobs_.begin();
    for (; job != jobs_.end() && job->threads > 1; ++job) lend_and_run(*job, 0);
    share_out(job, [&](Job& one, int worker) { lend_and_run(one, worker * shared); });
    for (const Job& done : jobs_) {
      if (!done.status.is_ok()) return done.status;
    }
    return Status::ok();
  }

 private:
  using Jobs = std::vector<Job>;

  template <class Act>
  void share_out(Jobs::iterator first, const Act& act) {
    const index_t count = jobs_.end() - first;
    if (count == 0) return;
    parallel::for_each(threads_, count, [&](index_t i, int worker) { act(first[i], worker); });
  }

  // What a worker runs must not throw.
  Status plan_job(Job* job) const {
    try {
      const SdpaProblem& problem = job->sequence->problem;
      RunOptions options = options_;
      if (options.memory_limit_bytes >= 0 && queries_ > 0) {
        options.memory_limit_bytes = share_of(problem.shape.n);
      }
      Status status = set_ ? plan_sdpa(problem, *set_, options, &job->plan)
                           : plan_sdpa(problem, options, &job->plan);
      if (!status.is_ok()) return status;
      return set_ ? workspace_of(problem, job->plan, *set_, job->threads, &job->bytes)
                  : workspace_of(problem, job->plan, job->threads, &job->bytes);
    } catch (const std::bad_alloc&) {
      return Status::error(StatusCode::out_of_memory, "out of memory");
    } catch (...) {
      return Status::error(StatusCode::internal, "unexpected exception");
    }
  }

  // Of the limit of scratch memory, by queries: sequences run beside each other.
  index_t share_of(index_t queries) const {
    const index_t limit = options_.memory_limit_bytes;
    return limit / queries_ * queries + limit % queries_ * queries / queries_;
  }

  std::optional<SdpaSet> set_;
  RunOptions options_;
  index_t queries_ = 0;
  int threads_ = 1;
  Jobs jobs_;
};

}  // namespace

template <class S>
Status packed_forward(std::span<const Sequence> sequences, const RunOptions& options,
                      const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse) {
  const Status checked = check_forward(inputs, o, lse);
  if (!checked.is_ok()) return checked;
  PackedRun packed(sequences, std::nullopt, options);
  return packed.run([&](const Job& job, schedules::CallerMemory* memory) {
    const Sequence& s = *job.sequence;
    const index_t n = s.problem.shape.n;
    return run_forward<S>({s.problem, job.plan, job.threads, nullptr, memory}, inputs_of(inputs, s),
                          rows_of(o, s.first_query, n), columns_of(lse, s.first_query, n));
  });
}

template <class S, class G>
Status packed_backward(std::span<const Sequence> sequences, const RunOptions& options,
                       const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                       const SdpaGradients<G>& gradients) {
  const Status checked = check_backward(inputs, forward, gradients);
  if (!checked.is_ok()) return checked;
  const SdpaSet set = set_of<S>(gradients);
  const index_t queries = forward.d_o.heads * forward.d_o.rows;
  const Status small =
      plan::check_scratch(set, queries, dtype_of<S>::value, options.memory_limit_bytes);
  if (!small.is_ok()) return small;
  PackedRun packed(sequences, set, options);
  return packed.run([&](const Job& job, schedules::CallerMemory* memory) {
    const Sequence& s = *job.sequence;
    const SdpaShape& shape = s.problem.shape;
    const SdpaForwardResults<S> results = {rows_of(forward.d_o, s.first_query, shape.n),
                                           rows_of(forward.o, s.first_query, shape.n),
                                           columns_of(forward.lse, s.first_query, shape.n)};
    const SdpaGradients<G> out = {
        rows_of(gradients.dq, s.first_query, shape.n), rows_of(gradients.dk, s.first_key, shape.m),
        rows_of(gradients.dv, s.first_key, shape.m), gradients.accumulate};
    return run_backward<S, G>({s.problem, job.plan, job.threads, nullptr, memory},
                              inputs_of(inputs, s), results, out);
  });
}

#define IOATTN_INSTANTIATE(S)                                                  \
  template Status packed_forward(std::span<const Sequence>, const RunOptions&, \
                                 const SdpaInputs<S>&, TensorView<S>, TensorView<Compute<S>>)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                      \
  template Status packed_backward(std::span<const Sequence>, const RunOptions&,       \
                                  const SdpaInputs<S>&, const SdpaForwardResults<S>&, \
                                  const SdpaGradients<G>&)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
