// Pieces of HTML that several sections of the report are made of.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace parley {

inline constexpr std::size_t kColours = 8;  // --s0 … --s7 in report_page.css

// Text as HTML content or as a quoted attribute.
std::string escape(std::string_view text);

}  // namespace parley
