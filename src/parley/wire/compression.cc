#include "parley/wire/compression.h"

#include <zstd.h>

#include "parley/base/errors.h"
#include "parley/wire/protocol.h"

namespace parley::wire {
namespace {

// The fastest of the ordinary ones: what is left of floats after it hardly shrinks at higher levels.
constexpr int kLevel = 1;

}  // namespace

void fill(v1::Chunk& chunk, std::size_t round, std::size_t offset, std::string_view plain, bool pack) {
  chunk.set_round(round);
  chunk.set_offset(offset);
  if (pack) {
    std::string packed(ZSTD_compressBound(plain.size()), '\0');
    const std::size_t size = ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), kLevel);
    if (ZSTD_isError(size) == 0 && size < plain.size()) {
      packed.resize(size);
      chunk.set_bytes(std::move(packed));
      chunk.set_unpacked(plain.size());
      return;
    }
  }
  chunk.set_bytes(plain.data(), plain.size());
}

std::string_view plain_bytes(const v1::Chunk& chunk, bool may_be_packed, std::string& buffer) {
  const std::string& bytes = chunk.bytes();
  const std::size_t size = chunk.unpacked() > 0 ? chunk.unpacked() : bytes.size();
  if (size > kChunk) fail("a chunk has {} bytes; expected up to {}", size, kChunk);
  if (chunk.unpacked() == 0) return bytes;
  if (!may_be_packed) fail("a chunk is compressed, and that was not agreed on");
  buffer.resize(size);
  const std::size_t came = ZSTD_decompress(buffer.data(), size, bytes.data(), bytes.size());  // never writes beyond it
  if (ZSTD_isError(came) != 0) fail("a chunk cannot be unpacked to {} bytes: {}", size, ZSTD_getErrorName(came));
  if (came != size) fail("a chunk unpacks to {} bytes; {} were announced", came, size);
  return buffer;
}

}  // namespace parley::wire
