// Pieces of HTML that several sections of the report are made of.
#pragma once

#include <string>
#include <string_view>

namespace parley {

// Text as HTML content or as a quoted attribute.
std::string escape(std::string_view text);

}  // namespace parley
