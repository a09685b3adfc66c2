// The fixed parts of the report page, embedded from the files of the same name by embed.cmake.
#pragma once

#include <string_view>

namespace parley::report_page {

extern const std::string_view html;  // with {{name}} where render_report fills something in
extern const std::string_view css;
extern const std::string_view js;

}  // namespace parley::report_page
