#include "plan/plan_items.hpp"

namespace ioattn::plan {
namespace {
constexpr std::string_view separator = " ; ";
}  // namespace

void add_item(const std::string& item, std::string* text) {
  if (!text->empty()) *text += separator;
  *text += item;
}

bool parse_items(std::string_view text, const char* what,
                 const std::function<bool(std::string_view item)>& parse,
                 const std::function<std::string()>& canonical, std::string* error) {
  const std::string refusal = std::string("not a plan of ") + what + ": " + std::string(text);
  std::string_view rest = text;
  for (;;) {
    const std::size_t end = rest.find(separator);
    if (!parse(rest.substr(0, end))) {
      *error = refusal;
      return false;
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + separator.size());
  }
  // One plan, one text; phases that are not taken, or lack, show here.
  const std::string meant = canonical();
  if (meant == text) return true;
  *error = refusal + (meant.empty() ? "" : " (did you mean " + meant + "?)");
  return false;
}

}  // namespace ioattn::plan
