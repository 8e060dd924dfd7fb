#pragma once

#include <string>

namespace ioattn::wisdom {

// Where wisdom is kept; "": nowhere.
struct Places {
  bool off = false;    // IOATTN_WISDOM=off: nothing is read by itself
  std::string user;    // IOATTN_WISDOM, $XDG_CACHE_HOME/ioattn/wisdom.json or ~/.cache/...
  std::string system;  // /etc/ioattn/wisdom.json, unless IOATTN_WISDOM names the only one
};
// From the values of IOATTN_WISDOM, XDG_CACHE_HOME and HOME; each may be null. What is no absolute
// path says nothing, but for IOATTN_WISDOM.
Places places(const char* variable, const char* cache_home, const char* home);
Places places_here();

}  // namespace ioattn::wisdom
