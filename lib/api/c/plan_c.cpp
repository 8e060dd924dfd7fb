#include "api/c/copy_text.hpp"
#include "api/c/plan_handle.hpp"

using namespace ioattn;
using namespace ioattn::api;

void ioattn_plan_destroy(ioattn_plan* plan) { delete plan; }

ioattn_status ioattn_plan_workspace_size(const ioattn_plan* plan, size_t* bytes) {
  return guarded([&] {
    if (plan == nullptr || bytes == nullptr) return invalid("plan or bytes is null");
    *bytes = static_cast<size_t>(
        std::visit([](const auto& p) { return p.workspace_bytes(); }, plan->plan));
    return Status::ok();
  });
}

ioattn_status ioattn_plan_text(const ioattn_plan* plan, char* buffer, size_t size, size_t* needed) {
  return guarded([&] {
    if (plan == nullptr) return invalid("plan is null");
    return copy_text(std::visit([](const auto& p) { return p.text(); }, plan->plan), buffer, size,
                     needed);
  });
}

ioattn_status ioattn_plan_describe(const ioattn_plan* plan, char* buffer, size_t size,
                                   size_t* needed) {
  return guarded([&] {
    if (plan == nullptr) return invalid("plan is null");
    return copy_text(
        std::visit([&](const auto& p) { return p.describe(plan->overflows); }, plan->plan), buffer,
        size, needed);
  });
}

ioattn_status ioattn_plan_count_overflows(ioattn_plan* plan, int32_t on) {
  return guarded([&] {
    if (plan == nullptr) return invalid("plan is null");
    if (on != 0) {
      plan->overflows.begin();
    } else {
      plan->overflows.end();
    }
    return Status::ok();
  });
}
