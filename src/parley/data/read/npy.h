// NumPy's npy format, versions 1 to 3, C order: magic, version, header length, a Python dict, raw
// values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace parley {

// The values keep their kind: bytes stay bytes, <f4 and <f8 become floats, <i4 and <i8 become
// 64-bit whole numbers.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::variant<std::vector<std::uint8_t>, std::vector<float>, std::vector<std::int64_t>> values;
};

// Throws InputError (magic, version, dtype, Fortran order, length).
NpyArray parse_npy(std::string_view bytes, const std::string& name);
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace parley
