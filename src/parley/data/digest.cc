#include "parley/data/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <iterator>

#include "parley/base/errors.h"

namespace parley {

std::string hex_digest(const std::string& algorithm, std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  const EVP_MD* method = EVP_get_digestbyname(algorithm.c_str());
  if (method == nullptr || EVP_Digest(bytes.data(), bytes.size(), digest, &length, method, nullptr) != 1) {
    fail<RunError>("the {} checksum cannot be computed; OpenSSL does not offer it here", algorithm);
  }
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) fmt::format_to(std::back_inserter(hex), "{:02x}", digest[i]);
  return hex;
}

}  // namespace parley
