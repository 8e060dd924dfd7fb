#include "api/plan_handle.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

Status copy_text(const std::string& text, char* buffer, size_t size, size_t* needed) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (buffer == nullptr) return Status::ok();
  if (size < text.size() + 1) {
    return Status::error(StatusCode::invalid_argument, "a buffer of %zu bytes is too small: %zu",
                         size, text.size() + 1);
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return Status::ok();
}

}  // namespace

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
    return copy_text(std::visit([](const auto& p) { return p.describe(); }, plan->plan), buffer,
                     size, needed);
  });
}
