// Bytes of data files, plain or gzip, and the arithmetic that keeps a lying header from being
// believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace parley {

// How long a file is by its own header, of which these are the first bytes; nothing while more of them are needed.
using DeclaredSize = std::function<std::optional<std::size_t>(std::string_view)>;

// The whole file, unpacked when it begins like gzip. Throws InputError (missing, truncated,
// damaged). A file that unpacks to more than its header speaks of is refused before it fills the memory.
std::string read_unpacked(const std::filesystem::path& path, const DeclaredSize& declared = {});
// The same for bytes in memory; `name` stands in messages.
std::string unpack_gzip(std::string_view bytes, const std::string& name, const DeclaredSize& declared = {});

// Big- and little-endian numbers at `offset`, which the caller has checked.
std::uint32_t big_endian_32(std::string_view bytes, std::size_t offset);
std::uint64_t little_endian(std::string_view bytes, std::size_t offset, std::size_t width);

// The product of extents; throws InputError naming `name` when one is negative or the product
// overflows.
std::size_t checked_product(std::span<const std::int64_t> extents, const std::string& name);

}  // namespace parley
