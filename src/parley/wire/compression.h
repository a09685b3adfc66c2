// Chunks of a vector, plain or packed by zstd. Each is packed by itself, so that what one needs to unpack it is
// bounded.
#pragma once

#include <string>
#include <string_view>

#include "parley/wire/federation.pb.h"

namespace parley::wire {

// How it is called in [serve] and between a node and its server.
inline constexpr const char* kZstd = "zstd";

// Names the chunk and gives it these bytes; packed, where that is asked for and makes them fewer.
void fill(v1::Chunk& chunk, std::size_t round, std::size_t offset, std::string_view plain, bool pack);

// What a chunk brings, of at most kChunk bytes; `buffer` holds it where it has to be unpacked. Throws InputError for a
// chunk that is longer, truncated, or packed where `may_be_packed` says no.
std::string_view plain_bytes(const v1::Chunk& chunk, bool may_be_packed, std::string& buffer);

}  // namespace parley::wire
