#include "api/c/copy_text.hpp"
#include "api/known/wisdom_state.hpp"
#include "api/plans/wisdom_explain.hpp"
#include "wisdom/file.hpp"
#include "wisdom/text.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;
using wisdom::Reason;
using wisdom::Verdict;

Status status_of(const Verdict& verdict) {
  if (verdict.is_ok()) return Status::ok();
  const bool elsewhere = verdict.reason >= Reason::library && verdict.reason <= Reason::caches;
  return Status::error(elsewhere ? StatusCode::unsupported : StatusCode::invalid_argument,
                       "%s: %.200s", name_of(verdict.reason), verdict.message.c_str());
}

Status adopt(wisdom::Wisdom read) {
  {
    const WisdomReading known;
    const Verdict verdict = compare_with_here(read, *known);
    if (!verdict.is_ok()) return status_of(verdict);
  }
  change_wisdom([&](wisdom::Wisdom* wisdom) { wisdom->merge(std::move(read)); });
  return Status::ok();
}

// The path, or the user's.
Status place_of(const char* path, std::string* place) {
  if (path != nullptr) {
    *place = path;
    return Status::ok();
  }
  const WisdomReading known;
  *place = known->places.user;
  return place->empty() ? status_of({Reason::off, "there is no place for the user's file"})
                        : Status::ok();
}

}  // namespace

ioattn_status ioattn_wisdom_import_text(const char* text) {
  return guarded([&] {
    if (text == nullptr) return invalid("text is null");
    wisdom::Wisdom read;
    const Verdict verdict = wisdom::parse(text, &read);
    return verdict.is_ok() ? adopt(std::move(read)) : status_of(verdict);
  });
}

ioattn_status ioattn_wisdom_import_file(const char* path) {
  return guarded([&] {
    std::string place;
    const Status found = place_of(path, &place);
    if (!found.is_ok()) return found;
    wisdom::Wisdom read;
    const Verdict verdict = wisdom::read_file(place, &read);
    return verdict.is_ok() ? adopt(std::move(read)) : status_of(verdict);
  });
}

ioattn_status ioattn_wisdom_export_text(char* buffer, size_t size, size_t* needed) {
  return guarded([&] {
    const WisdomReading known;
    return copy_text(wisdom::to_text(known->wisdom), buffer, size, needed);
  });
}

ioattn_status ioattn_wisdom_export_file(const char* path) {
  return guarded([&] {
    std::string place;
    const Status found = place_of(path, &place);
    if (!found.is_ok()) return found;
    const WisdomReading known;
    return status_of(wisdom::merge_into_file(place, known->wisdom));
  });
}

ioattn_status ioattn_wisdom_forget(void) {
  return guarded([&] {
    change_wisdom([](wisdom::Wisdom* wisdom) { *wisdom = {}; });
    return Status::ok();
  });
}

ioattn_status ioattn_wisdom_explain(char* buffer, size_t size, size_t* needed) {
  return guarded([&] { return copy_text(explain_wisdom(), buffer, size, needed); });
}
