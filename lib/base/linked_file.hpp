#pragma once

#include <string>
#include <system_error>

namespace ioattn {

// The file that a path leads to by links, also where there is none yet; of a path that is no link,
// itself. What replaces a file under its link would leave the file as it was.
std::string linked_file(const std::string& path, std::error_code* failure);

}  // namespace ioattn
