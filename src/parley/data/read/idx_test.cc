#include "parley/data/read/idx.h"

#include <rapidcheck.h>

#include "parley/data/read/bytes.h"
#include "parley/data/test_folder.h"

namespace parley {
namespace {

std::string idx(std::initializer_list<std::uint32_t> extents, const std::string& values, char type = 8) {
  std::string bytes{'\0', '\0', type, static_cast<char>(extents.size())};
  for (const auto extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + values;
}

TEST(Idx, ReadsPlainAndGzip) {
  const TestFolder folder;
  const std::string images = idx({2, 1, 3}, "abcdef"), labels = idx({2}, std::string("\x00\x01", 2));
  for (const bool gz : {false, true}) {
    const auto x = gz ? folder.write_gz("x.gz", images) : folder.write("x", images);
    const auto y = gz ? folder.write_gz("y.gz", labels) : folder.write("y", labels);
    const Dataset data = read_idx_pair(x, y, 0);
    EXPECT_EQ(data.shape, (std::vector<std::int64_t>{1, 1, 3}));
    EXPECT_EQ(std::get<0>(data.values), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
    EXPECT_EQ(data.labels, (std::vector<std::int32_t>{0, 1}));
    EXPECT_EQ(data.classes, 2u);
  }
}

TEST(Idx, RefusesDamagedFiles) {
  const auto refuse = [](const std::string& bytes, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_idx(bytes, "f.idx"); }, pieces);
  };
  refuse("", {"f.idx", "0 bytes"});
  refuse(idx({2}, "ab", 0x0d), {"f.idx", "magic", "0x00000d01"});
  refuse("PK\x03\x04zzzzzz", {"f.idx", "magic"});
  refuse(idx({2, 3}, "abcde"), {"f.idx", "truncated", "expected 6", "found 5"});
  refuse(idx({2, 3}, "abcdefg"), {"f.idx", "trailing", "found 7"});
  refuse(idx({2, 3}, "").substr(0, 9), {"f.idx", "truncated", "header"});
  refuse(idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc"), {"f.idx", "too large"});
  refuse(std::string("\0\0\x08\0", 4), {"f.idx", "extents"});
}

TEST(Idx, RefusesFilesThatDoNotBelongTogether) {
  const TestFolder folder;
  const auto images = folder.write("images", idx({2, 1, 1}, "ab"));
  const auto labels = folder.write("labels", idx({2}, std::string("\x00\x0a", 2)));
  const auto three = folder.write("three", idx({3}, std::string("\x00\x01\x00", 3)));
  expect_refusal([&] { read_idx_pair(images, labels, 10); }, {"labels", "row 1", "label 10", "0 to 9"});
  expect_refusal([&] { read_idx_pair(images, three, 10); }, {"three", "3 labels", "2 images"});
  expect_refusal([&] { read_idx_pair(labels, labels, 10); }, {"labels", "expected images"});
  expect_refusal([&] { read_idx_pair(images, images, 10); }, {"images", "expected labels"});
  expect_refusal([&] { read_idx_pair(folder.path() / "absent", labels, 10); }, {"absent", "cannot be read"});
}

TEST(Gzip, RefusesTruncatedAndDamaged) {
  const TestFolder folder;
  const auto file = folder.write_gz("x.gz", std::string(100'000, 'x') + "tail");
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_EQ(unpack_gzip(bytes, "x").size(), 100'004u);
  EXPECT_EQ(unpack_gzip(bytes + bytes, "x").size(), 200'008u);  // several members
  expect_refusal([&] { unpack_gzip(bytes.substr(0, bytes.size() / 2), "x.gz"); }, {"x.gz", "ends in the middle"});
  expect_refusal([&] { unpack_gzip(bytes.substr(0, bytes.size() - 1), "x.gz"); }, {"x.gz", "ends in the middle"});
  bytes[bytes.size() - 6] ^= 1;  // the checksum
  expect_refusal([&] { unpack_gzip(bytes, "x.gz"); }, {"x.gz", "damaged"});
}

// Whatever the bytes are, they are read or refused.
TEST(Idx, NeverCrashes) {
  const std::string good = idx({2, 1, 3}, "abcdef");
  EXPECT_TRUE(rc::check("damaged idx", [&](std::size_t at, std::uint8_t byte, std::size_t length) {
    std::string bytes = good.substr(0, good.size() - length % 3);
    bytes[at % bytes.size()] = static_cast<char>(byte);
    try {
      const IdxArray array = parse_idx(bytes, "f");
      RC_ASSERT(array.values.size() <= bytes.size());
    } catch (const InputError&) {
    }
  }));
}

}  // namespace
}  // namespace parley
