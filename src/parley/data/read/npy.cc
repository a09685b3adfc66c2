#include "parley/data/read/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/numbers.h"
#include "parley/data/read/bytes.h"
#include "parley/tensor/layout.h"

namespace parley {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in the file");

struct Header {
  std::string dtype;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  std::size_t data_begin = 0;
};

[[noreturn]] void refuse_header(const std::string& name, std::string_view what) {
  fail("{}: the npy header is damaged: {}; save the array again with numpy.save", name, what);
}

// The text after 'key': in the header's Python dict.
std::string_view value_of(std::string_view dict, std::string_view key, const std::string& name) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{}{}{}", quote, key, quote);
    const std::size_t at = dict.find(quoted);
    if (at == std::string_view::npos) continue;
    std::string_view rest = dict.substr(at + quoted.size());
    const std::size_t begin = rest.find_first_not_of(": ");
    if (begin != std::string_view::npos) return rest.substr(begin);
  }
  refuse_header(name, fmt::format("no '{}'", key));
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& name) {
  const std::size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string_view::npos) {
    refuse_header(name, "the shape is no tuple");
  }
  std::vector<std::int64_t> shape;
  text = text.substr(1, close - 1);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t first = item.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    item = item.substr(first, item.find_last_not_of(" L") - first + 1);
    std::int64_t extent = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), extent);
    if (error != std::errc{} || end != item.data() + item.size() || extent < 0) {
      refuse_header(name, fmt::format("'{}' is no extent", item));
    }
    shape.push_back(extent);
  }
  return shape;
}

// Where the header ends, once the first bytes tell; they are at least ten.
std::size_t header_end(std::string_view bytes) {
  const std::size_t width = bytes[6] == 1 ? 2 : 4;
  return bytes.size() < 8 + width ? 8 + width : 8 + width + little_endian(bytes, 8, width);
}

Header parse_header(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with("\x93NUMPY") || bytes.size() < 10) {
    fail("{}: expected an npy file (it begins with \\x93NUMPY); save the array with numpy.save", name);
  }
  const auto version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) {
    fail("{}: npy version {} is not known; expected 1, 2 or 3", name, version);
  }
  const std::size_t width = version == 1 ? 2 : 4;
  const std::size_t begin = 8 + width;
  if (bytes.size() < begin) refuse_header(name, "it ends in the middle");
  const std::size_t length = little_endian(bytes, 8, width);
  if (length > bytes.size() - begin) refuse_header(name, "it is longer than the file");
  const std::string_view dict = bytes.substr(begin, length);

  Header header{.data_begin = begin + length};
  const std::string_view dtype = value_of(dict, "descr", name);
  const std::size_t close = dtype.empty() ? std::string_view::npos : dtype.find(dtype[0], 1);
  if (close == std::string_view::npos || (dtype[0] != '\'' && dtype[0] != '"')) {
    fail("{}: expected a plain dtype, found a record; save one array a file", name);
  }
  header.dtype = dtype.substr(1, close - 1);
  header.fortran = value_of(dict, "fortran_order", name).starts_with("True");
  header.shape = parse_shape(value_of(dict, "shape", name), name);
  return header;
}

// Values of type From, as the type To.
template <class From, class To>
std::vector<To> values_as(std::string_view bytes, std::size_t count, const std::string& name) {
  std::size_t expected = 0;
  if (__builtin_mul_overflow(count, sizeof(From), &expected) || expected != bytes.size()) {
    fail("{}: {}: expected {} of {}, found {}; save the array again", name,
         bytes.size() < expected ? "truncated" : "wrong length", counted(count, "value"), counted(sizeof(From), "byte"),
         counted(bytes.size(), "byte"));
  }
  std::vector<To> values(count);
  convert_numbers<From>(bytes.data(), std::span(values));
  return values;
}

// From column by column to row by row: the first index runs fastest in Fortran's order, the last in C's.
template <class T>
std::vector<T> in_c_order(const std::vector<T>& values, const std::vector<std::int64_t>& shape) {
  std::vector<T> result(values.size());
  std::vector<std::size_t> index(shape.size()), stride(shape.size());
  for (std::size_t d = 0, step = 1; d < shape.size(); step *= static_cast<std::size_t>(shape[d++])) stride[d] = step;
  std::size_t from = 0;
  for (T& value : result) {
    value = values[from];
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      from -= stride[d] * index[d];
      index[d] = 0;
    }
  }
  return result;
}

using Values = decltype(NpyArray::values);

Values values_of(const std::string& dtype, std::string_view raw, std::size_t count, const std::string& name) {
  const std::string_view kind = std::string_view(dtype).substr(std::min(dtype.find_first_not_of("<|="), dtype.size()));
  if (dtype.starts_with('>')) {
    fail("{}: dtype '{}' has its bytes in the other order; save x.astype(x.dtype.newbyteorder('<'))", name, dtype);
  }
  if (kind == "u1") return values_as<std::uint8_t, std::uint8_t>(raw, count, name);
  if (kind == "f2") return values_as<_Float16, float>(raw, count, name);
  if (kind == "f4") return values_as<float, float>(raw, count, name);
  if (kind == "f8") return values_as<double, float>(raw, count, name);
  if (kind == "b1") return values_as<std::uint8_t, std::int64_t>(raw, count, name);
  if (kind == "i1") return values_as<std::int8_t, std::int64_t>(raw, count, name);
  if (kind == "i2") return values_as<std::int16_t, std::int64_t>(raw, count, name);
  if (kind == "u2") return values_as<std::uint16_t, std::int64_t>(raw, count, name);
  if (kind == "i4") return values_as<std::int32_t, std::int64_t>(raw, count, name);
  if (kind == "u4") return values_as<std::uint32_t, std::int64_t>(raw, count, name);
  if (kind == "i8") return values_as<std::int64_t, std::int64_t>(raw, count, name);
  fail("{}: dtype '{}' is not read; expected truth values, whole numbers or floats: convert with x.astype", name,
       dtype);
}

// Here, where rows are still those of the file.
void require_finite(const NpyArray& array, const std::string& name) {
  const auto* floats = std::get_if<std::vector<float>>(&array.values);
  if (floats == nullptr) return;
  const auto bad = std::ranges::find_if(*floats, [](float x) { return !std::isfinite(x); });
  if (bad == floats->end()) return;
  const auto at = static_cast<std::size_t>(bad - floats->begin());
  const std::size_t width = array.shape.empty() ? 1 : floats->size() / static_cast<std::size_t>(array.shape[0]);
  fail("{}: row {} (from 0), value {}: {} is not a finite number; clean the data", name, at / width, at % width, *bad);
}

}  // namespace

NpyArray parse_npy(std::string_view bytes, const std::string& name) {
  const Header header = parse_header(bytes, name);
  const std::size_t count = checked_product(header.shape, name);
  NpyArray array{.shape = header.shape,
                 .values = values_of(header.dtype, bytes.substr(header.data_begin), count, name)};
  if (header.fortran && header.shape.size() > 1) {
    std::visit([&](auto& values) { values = in_c_order(values, header.shape); }, array.values);
  }
  require_finite(array, name);
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto declared = [&](std::string_view begin) -> std::optional<std::size_t> {
    if (begin.size() < 12 || begin.size() < header_end(begin)) return std::nullopt;
    const Header header = parse_header(begin, name);
    const std::array<std::int64_t, 2> extents{static_cast<std::int64_t>(checked_product(header.shape, name)), 8};
    return header.data_begin + checked_product(extents, name);  // no number is wider than eight bytes
  };
  return parse_npy(read_unpacked(path, declared), name);
}

}  // namespace parley
