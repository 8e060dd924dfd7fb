#include "wisdom/places.hpp"

#include <cstdlib>
#include <string_view>

namespace ioattn::wisdom {
namespace {

constexpr const char* name = "/ioattn/wisdom.json";

bool is_absolute(const char* path) { return path != nullptr && path[0] == '/'; }

}  // namespace

Places places(const char* variable, const char* cache_home, const char* home) {
  Places result;
  if (variable != nullptr && *variable != '\0') {
    result.off = std::string_view(variable) == "off";
    if (!result.off) result.user = variable;
    return result;
  }
  result.system = std::string("/etc") + name;
  if (is_absolute(cache_home)) {
    result.user = std::string(cache_home) + name;
  } else if (is_absolute(home)) {
    result.user = std::string(home) + "/.cache" + name;
  }
  return result;
}

Places places_here() {
  return places(std::getenv("IOATTN_WISDOM"), std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

}  // namespace ioattn::wisdom
