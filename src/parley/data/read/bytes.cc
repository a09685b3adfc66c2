#include "parley/data/read/bytes.h"

#include <zlib.h>

#include <limits>

#include "parley/base/errors.h"
#include "parley/base/files.h"

namespace parley {
namespace {

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

// Owns zlib's state, so that a throw in the middle does not leak it.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail<RunError>("zlib could not be started");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

// zlib counts in 32 bits; longer inputs are fed in pieces.
uInt piece(std::size_t left) {
  return static_cast<uInt>(std::min<std::size_t>(left, std::numeric_limits<int>::max()));
}

// Where unpacked bytes go: grows as they come, up to what the header speaks of and a byte more.
class Unpacked {
 public:
  Unpacked(std::size_t expected, const DeclaredSize& declared, const std::string& name)
      : declared_(declared), name_(name), bytes_(std::max<std::size_t>(expected, 4096), '\0') {}

  std::span<char> room() {
    if (written_ == bytes_.size()) bytes_.resize(std::min(2 * bytes_.size(), most_));
    return std::span(bytes_).subspan(written_);
  }
  void wrote(std::size_t count) {
    written_ += count;
    if (declared_ && most_ == kUnknown) {
      // One byte more, so that too much can be told from enough.
      if (const auto size = declared_(std::string_view(bytes_).substr(0, written_))) most_ = *size + 1;
    }
    if (written_ >= most_) {
      fail("{}: unpacks to more than the {} bytes that its header announces; fetch the file again", name_, most_ - 1);
    }
  }
  std::string take() {
    bytes_.resize(written_);
    return std::move(bytes_);
  }

 private:
  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();
  const DeclaredSize& declared_;
  const std::string& name_;
  std::size_t most_ = kUnknown, written_ = 0;
  std::string bytes_;
};

}  // namespace

std::string unpack_gzip(std::string_view bytes, const std::string& name, const DeclaredSize& declared) {
  Inflater inflater;
  Unpacked unpacked(bytes.size() * 4, declared, name);
  std::size_t read = 0;
  for (;;) {
    const auto room = unpacked.room();
    const uInt in = piece(bytes.size() - read), out = piece(room.size());
    inflater->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())) + read;
    inflater->avail_in = in;
    inflater->next_out = reinterpret_cast<Bytef*>(room.data());
    inflater->avail_out = out;
    const int status = inflate(inflater.get(), Z_NO_FLUSH);
    read += in - inflater->avail_in;
    unpacked.wrote(out - inflater->avail_out);
    if (status == Z_STREAM_END) {
      // gzip allows several members in a row.
      if (!is_gzip(bytes.substr(read))) break;
      inflateReset(inflater.get());
    } else if (status == Z_BUF_ERROR || (status == Z_OK && read == bytes.size() && inflater->avail_out > 0)) {
      fail("{}: gzip data ends in the middle; fetch the file again", name);
    } else if (status != Z_OK) {
      fail("{}: gzip data is damaged ({}); fetch the file again", name,
           inflater->msg != nullptr ? inflater->msg : "no detail");
    }
  }
  return unpacked.take();
}

std::string read_unpacked(const std::filesystem::path& path, const DeclaredSize& declared) {
  std::string bytes = read_file(path);
  return is_gzip(bytes) ? unpack_gzip(bytes, path.string(), declared) : bytes;
}

std::uint32_t big_endian_32(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[offset + i]);
  }
  return value;
}

std::uint64_t little_endian(std::string_view bytes, std::size_t offset, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i > 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[offset + i - 1]);
  }
  return value;
}

std::size_t checked_product(std::span<const std::int64_t> extents, const std::string& name) {
  std::size_t product = 1;
  for (const auto extent : extents) {
    if (extent < 0 || __builtin_mul_overflow(product, static_cast<std::size_t>(extent), &product)) {
      fail("{}: the extents are negative or too large; the header is damaged", name);
    }
  }
  return product;
}

}  // namespace parley
