#pragma once

#include <string>

namespace ioattn::api {

// What the process knows, as one JSON object (ioattn_wisdom_explain).
std::string explain_wisdom();

}  // namespace ioattn::api
