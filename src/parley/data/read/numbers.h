// Numbers in text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// The finite number that a text is from its first to its last character.
std::optional<float> finite_number(std::string_view text);

// Tables as instruments write them: one row a line, blanks between the numbers, no header. Returns one row behind the
// other. T is float or std::int32_t. Throws InputError "name:line: …" when a row has not `columns` numbers or one of
// them is no finite T, and when there is no row.
template <class T>
std::vector<T> parse_number_table(std::string_view text, std::size_t columns, const std::string& name);
template <class T>
std::vector<T> read_number_table(const std::filesystem::path& path, std::size_t columns);

}  // namespace parley
