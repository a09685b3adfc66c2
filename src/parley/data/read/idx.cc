#include "parley/data/read/idx.h"

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"
#include "parley/data/read/labels.h"
#include "parley/tensor/layout.h"

namespace parley {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMostExtents = 8, kLongestHeader = 4 + 4 * kMostExtents;

std::vector<std::int64_t> parse_extents(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 4) {
    fail("{}: expected an idx file, found only {}; fetch the file again", name, counted(bytes.size(), "byte"));
  }
  const std::uint32_t magic = big_endian_32(bytes, 0);
  if ((magic >> 8) != kUnsignedByte) {
    fail(
        "{}: expected the idx magic number 0x000008nn (unsigned bytes), found 0x{:08x}; is it "
        "another format?",
        name, magic);
  }
  const std::size_t rank = magic & 0xff;
  if (rank == 0 || rank > kMostExtents) {
    fail("{}: expected 1 to 8 extents, found {}; the header is damaged", name, rank);
  }
  if (bytes.size() < 4 + 4 * rank) {
    fail("{}: truncated: the header needs {} bytes, the file has {}; fetch the file again", name, 4 + 4 * rank,
         bytes.size());
  }
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < rank; ++i) extents.push_back(big_endian_32(bytes, 4 + 4 * i));
  return extents;
}

}  // namespace

IdxArray parse_idx(std::string_view bytes, const std::string& name) {
  IdxArray array{.shape = parse_extents(bytes, name)};
  const std::size_t header = 4 + 4 * array.shape.size();
  const std::size_t expected = checked_product(array.shape, name);
  const std::size_t found = bytes.size() - header;
  if (found != expected) {
    fail("{}: {}: expected {} for {}, found {}; fetch the file again", name,
         found < expected ? "truncated" : "trailing bytes", counted(expected, "value"), describe_shape(array.shape),
         found);
  }
  array.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return array;
}

IdxArray read_idx(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto declared = [&](std::string_view begin) -> std::optional<std::size_t> {
    if (begin.size() < kLongestHeader) return std::nullopt;
    const auto extents = parse_extents(begin, name);
    return 4 + 4 * extents.size() + checked_product(extents, name);
  };
  return parse_idx(read_unpacked(path, declared), name);
}

Dataset read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& labels, std::size_t classes) {
  IdxArray x = read_idx(images);
  const IdxArray y = read_idx(labels);
  if (x.shape.size() < 2) {
    fail("{}: expected images {{n, height, width}}, found extents {}; is it the label file?", images.string(),
         describe_shape(x.shape));
  }
  if (y.shape.size() != 1) {
    fail("{}: expected labels {{n}}, found extents {}; is it the image file?", labels.string(),
         describe_shape(y.shape));
  }
  if (x.shape[0] != y.shape[0]) {
    fail("{}: has {} labels, but {} has {} images; the two files do not belong together", labels.string(), y.shape[0],
         images.string(), x.shape[0]);
  }
  Dataset data;
  data.shape.assign(x.shape.begin() + 1, x.shape.end());
  if (data.shape.size() == 2) data.shape.insert(data.shape.begin(), 1);
  data.labels.assign(y.values.begin(), y.values.end());
  data.classes = count_classes(data.labels, classes, labels.string());
  data.values = std::move(x.values);
  return data;
}

}  // namespace parley
