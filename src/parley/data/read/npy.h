// NumPy's npy format, versions 1 to 3: magic, version, header length, a Python dict, raw
// values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace parley {

// The values keep their kind, in C order: unsigned bytes stay bytes, floats of any width become floats, truth values
// and other whole numbers become 64-bit whole numbers.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::variant<std::vector<std::uint8_t>, std::vector<float>, std::vector<std::int64_t>> values;
};

// Throws InputError (magic, version, dtype, length).
NpyArray parse_npy(std::string_view bytes, const std::string& name);
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace parley
