#include "plan/sdpa/sdpa_scratch.hpp"

#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {

index_t sums_of_dq(const SdpaRequest& request, const SdpaSet& set, bool one_pass) {
  const index_t queries = request.shape.all_queries();
  return one_pass && set.rounds(request.dtype) ? queries * request.shape.d : 0;
}

index_t scratch_bytes(const SdpaSet& set, index_t queries, index_t sums, DType dtype) {
  const index_t bytes = size_of(dtype) * theory::resident_words(dtype);
  return ((set.delta() ? queries : 0) + sums) * bytes;
}

Status check_scratch(const SdpaSet& set, index_t queries, DType dtype, index_t limit) {
  const index_t bytes = scratch_bytes(set, queries, 0, dtype);
  if (limit < 0 || bytes <= limit) return Status::ok();
  return Status::error(StatusCode::memory_limit,
                       "the gradients need %lld bytes of scratch memory, more than %lld",
                       static_cast<long long>(bytes), static_cast<long long>(limit));
}

}  // namespace ioattn::plan
