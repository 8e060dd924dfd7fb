#pragma once

#include <functional>
#include <string>

#include "wisdom/wisdom.hpp"

namespace ioattn::wisdom {

// A regular file of at most largest_text bytes; *wisdom is untouched unless all of it is good.
Verdict read_file(const std::string& path, Wisdom* wisdom);

// Reads what is there (nothing: empty wisdom), changes it, and puts it in place as a whole, on
// disk before it is seen; whoever else does so waits. A file that cannot be read is left as it is.
// Directories are made; a path that names no file, or what is no regular file, is refused before.
Verdict update_file(const std::string& path, const std::function<void(Wisdom*)>& change);

// Adds what is better than what is there.
Verdict merge_into_file(const std::string& path, const Wisdom& wisdom);

}  // namespace ioattn::wisdom
