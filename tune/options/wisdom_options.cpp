#include "tune/options/wisdom_options.hpp"

#include <CLI/CLI.hpp>

#include "api/known/wisdom_state.hpp"
#include "tune/command_error.hpp"

namespace ioattn::tune {

CLI::Option* add_rigor(CLI::App* app, wisdom::Rigor* rigor) {
  return app
      ->add_option_function<std::string>(
          "--rigor", [rigor](const std::string& name) { wisdom::parse_rigor(name, rigor); },
          "measure: 0.5 s for each pass (default); patient: 30 s")
      ->check(CLI::IsMember({"measure", "patient"}));
}

void require(const wisdom::Verdict& verdict) {
  if (verdict.is_ok()) return;
  const std::string message = std::string(name_of(verdict.reason)) + ": " + verdict.message;
  if (verdict.reason == wisdom::Reason::unwritable || verdict.reason == wisdom::Reason::busy) {
    throw RunError(message);
  }
  throw UsageError(message);
}

std::string wisdom_file(const std::string& named) {
  return named.empty() ? users_wisdom_file("; --file names one") : named;
}

std::string users_wisdom_file(const std::string& otherwise) {
  std::string user = wisdom::places_here().user;
  if (!user.empty()) return user;
  throw UsageError(
      "there is no place for wisdom: IOATTN_WISDOM is off, or neither XDG_CACHE_HOME "
      "nor HOME is a path" +
      otherwise);
}

}  // namespace ioattn::tune
