// Checksums, by OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace parley {

// The digest of the bytes ("sha256", "md5"), in lower-case hexadecimal.
std::string hex_digest(const std::string& algorithm, std::string_view bytes);

}  // namespace parley
