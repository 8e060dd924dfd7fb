#include "base/linked_file.hpp"

#include <filesystem>

namespace ioattn {

std::string linked_file(const std::string& path, std::error_code* failure) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;  // as Linux has it
  fs::path place = path;
  for (int links = 0; links <= most_links; ++links) {
    const fs::file_status status = fs::symlink_status(place, *failure);
    if (status.type() != fs::file_type::none) failure->clear();  // there or not: it is known
    if (*failure || status.type() != fs::file_type::symlink) return place.string();
    const fs::path target = fs::read_symlink(place, *failure);
    if (*failure) return place.string();
    place = place.parent_path() / target;
  }
  *failure = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  return place.string();
}

}  // namespace ioattn
