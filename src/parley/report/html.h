// Pieces of HTML that several sections of the report are made of.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

inline constexpr std::size_t kColours = 8;  // --s0 … --s7 in report_page.css

// Text as HTML content or as a quoted attribute.
std::string escape(std::string_view text);

// A short line in the colour and the dashes of the group or model with this number.
std::string swatch(std::size_t number);

// A head of a column, with what its numbers mean for whoever points at it.
std::string column_head(std::string_view head, std::string_view meaning);

// A drawing that fills the width it gets, between labels that do not shrink with it: beside it from top to bottom,
// below it from left to right. `shapes` are SVG in a square of 1000 × 1000; strokes keep their width, and so do dots,
// which are lines of no length with round ends.
std::string framed_drawing(std::string_view shapes, std::string_view what, const std::vector<std::string>& beside,
                           const std::vector<std::string>& below);

}  // namespace parley
