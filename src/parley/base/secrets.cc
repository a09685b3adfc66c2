#include "parley/base/secrets.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "parley/base/errors.h"

namespace parley {

void system_secrets(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail<RunError>("the operating system gave no random bytes: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace parley
