#include "parley/wire/compression.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>

#include "parley/base/errors.h"
#include "parley/wire/protocol.h"

namespace parley::wire {
namespace {

std::string refusal(const v1::Chunk& chunk, bool may_be_packed = true) {
  std::string buffer;
  try {
    static_cast<void>(plain_bytes(chunk, may_be_packed, buffer));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

v1::Chunk packed(std::string_view plain) {
  v1::Chunk chunk;
  fill(chunk, 3, 5, plain, true);
  return chunk;
}

TEST(Chunks, ComeBackAsTheyWere) {
  const std::string plain(kChunk, 'x');
  const v1::Chunk chunk = packed(plain);
  EXPECT_EQ(chunk.round(), 3u);
  EXPECT_EQ(chunk.offset(), 5u);
  EXPECT_LT(chunk.bytes().size(), 1000u);
  std::string buffer;
  EXPECT_EQ(plain_bytes(chunk, true, buffer), plain);
}

TEST(Chunks, StayPlainWhereTheyDoNotShrinkOrNobodyAsked) {
  std::mt19937 dice(1);
  std::string noise;
  for (int i = 0; i < 1000; ++i) noise += static_cast<char>(dice());
  v1::Chunk unasked;
  fill(unasked, 1, 0, std::string(1000, 'x'), false);
  for (const v1::Chunk& chunk : {packed(noise), unasked}) {
    EXPECT_EQ(chunk.unpacked(), 0u);
    EXPECT_EQ(chunk.bytes().size(), 1000u);
    EXPECT_EQ(refusal(chunk, false), "");
  }
}

TEST(Chunks, TruncatedOrOfAnotherLengthAreRefused) {
  const v1::Chunk good = packed(std::string(5000, 'x'));
  for (std::size_t size = 0; size < good.bytes().size(); ++size) {
    v1::Chunk cut = good;
    cut.mutable_bytes()->resize(size);
    EXPECT_NE(refusal(cut), "") << size;
  }
  v1::Chunk longer = good, shorter = good;
  longer.set_unpacked(5001);
  shorter.set_unpacked(4999);
  EXPECT_NE(refusal(longer).find("unpacks to 5000 bytes; 5001 were announced"), std::string::npos);
  EXPECT_NE(refusal(shorter).find("cannot be unpacked to 4999 bytes"), std::string::npos);
}

// Some kilobytes that unpack to 64 MiB.
TEST(Chunks, BombsAreRefusedBeforeTheyGoOff) {
  const std::string plain(std::size_t{64} << 20, '\0');
  std::string bomb(ZSTD_compressBound(plain.size()), '\0');
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), plain.data(), plain.size(), 1));
  ASSERT_LT(bomb.size(), std::size_t{1} << 16);
  v1::Chunk chunk;
  chunk.set_bytes(bomb);
  for (const std::size_t said : {kChunk, plain.size()}) {
    chunk.set_unpacked(said);
    EXPECT_NE(refusal(chunk), "") << said;
  }
}

TEST(Chunks, PackedOnesAreRefusedWhereNoneWereAgreedOn) {
  EXPECT_NE(refusal(packed(std::string(5000, 'x')), false).find("was not agreed on"), std::string::npos);
}

TEST(Chunks, PlainOnesAreNoLongerThanTheyMayBe) {
  v1::Chunk chunk;
  fill(chunk, 1, 0, std::string(kChunk + 1, 'x'), false);
  EXPECT_NE(refusal(chunk).find("expected up to"), std::string::npos);
}

}  // namespace
}  // namespace parley::wire
