#pragma once

#include "schedules/sdpa/sdpa.hpp"

// Forward, heads that share keys and all see the same of them (SdpaShape::has_grouped_rows) are
// taken as one head with the rows of all, where these follow each other in memory. The bits are the
// same by the same kernels: no row's depend on those beside it.
namespace ioattn::api {

template <class S>
void keep_seen_keys(schedules::SdpaForwardTask<S>* task) {
  task->shape = task->shape.with_seen_keys();
  task->in.k.rows = task->in.v.rows = task->shape.m;
}

// False if they do not follow each other.
template <class T>
bool group_rows(index_t together, TensorView<T>* view) {
  if (view->data == nullptr) return true;
  const bool are_single = view->rows == 1;
  if (!are_single && view->head_stride != view->rows * view->row_stride) return false;
  if (are_single) view->row_stride = view->head_stride;
  view->heads /= together;
  view->rows *= together;
  view->head_stride *= together;
  return true;
}
// The same of vectors, which are rows.
template <class T>
bool group_vectors(index_t together, TensorView<T>* view) {
  if (view->data == nullptr) return true;
  if (view->head_stride != view->cols) return false;
  view->heads /= together;
  view->cols *= together;
  view->head_stride *= together;
  return true;
}

// How many of a group: the most that leave a head for every thread.
inline index_t heads_together(const SdpaShape& shape, int threads) {
  for (index_t together = shape.group(); together > 1; --together) {
    if (shape.group() % together == 0 && shape.all_heads() / together >= threads) return together;
  }
  return 1;
}

// Without a mask.
template <class S>
void group_heads(schedules::SdpaForwardTask<S>* task) {
  const int threads = task->workers();
  const index_t together = heads_together(task->shape, threads);
  schedules::SdpaForwardTask<S> grouped = *task;
  if (!group_rows(together, &grouped.in.q) || !group_rows(together, &grouped.o) ||
      !group_vectors(together, &grouped.lse)) {
    return;
  }
  grouped.shape = task->shape.with_grouped_rows(together);
  *task = grouped;
}

}  // namespace ioattn::api
