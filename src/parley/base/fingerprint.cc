#include "parley/base/fingerprint.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace parley {

struct Fingerprint::State {
  XXH3_state_t xxh;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}

Fingerprint::~Fingerprint() = default;

Fingerprint& Fingerprint::add(std::string_view bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

std::string Fingerprint::text() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(&state_->xxh));
}

std::string fingerprint(std::string_view bytes) {
  return Fingerprint().add(bytes).text();
}

}  // namespace parley
