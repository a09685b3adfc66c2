#include "parley/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "parley/base/counted.h"
#include "parley/base/errors.h"
#include "parley/base/fingerprint.h"
#include "parley/base/nesting.h"
#include "parley/base/numbers.h"

namespace parley {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is written as it lies in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeader = 100 << 20;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

// The checksum is of the whole file with zeros in its own place.
constexpr const char* kChecksum = "parley_checksum";
constexpr std::size_t kDigits = 16;

// Where the digits of the checksum stand in the header; npos when they are not there as we write them.
std::size_t digits_at(std::string_view header, const std::string& digits) {
  const std::string front = fmt::format("\"{}\":\"", kChecksum);
  const std::size_t found = header.find(front + digits + '"');
  return found == std::string_view::npos ? found : found + front.size();
}

using Offsets = std::pair<std::size_t, std::size_t>;

std::string_view as_bytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// How the numbers of a dtype become floats.
struct Dtype {
  std::size_t bytes;
  void (*convert)(const char* from, std::span<float> to);
};

// The upper half of a float.
void convert_from_bf16(const char* from, std::span<float> to) {
  for (float& value : to) {
    std::uint16_t half;
    std::memcpy(&half, from, sizeof(half));
    value = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    from += sizeof(half);
  }
}

const Dtype* find_dtype(const std::string& name) {
  static const std::map<std::string, Dtype> known{
      {"F32", {4, convert_numbers<float>}},
      {"F16", {2, convert_numbers<_Float16>}},
      {"BF16", {2, convert_from_bf16}},
      {"F64", {8, convert_numbers<double>}},
      {"I64", {8, convert_numbers<std::int64_t>}},
      {"I32", {4, convert_numbers<std::int32_t>}},
      {"U8", {1, convert_numbers<std::uint8_t>}},
      {"BOOL", {1, convert_numbers<std::uint8_t>}},
  };
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

Tensor parse_tensor(const nlohmann::ordered_json& entry, std::string_view data, const std::string& where,
                    std::vector<Offsets>& taken) {
  const auto broken = [&](const char* why) { fail("{}: {}; the file is damaged or not safetensors", where, why); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    broken("expected dtype, shape and data_offsets");
  }
  const Dtype* dtype = entry["dtype"].is_string() ? find_dtype(entry["dtype"].get<std::string>()) : nullptr;
  if (dtype == nullptr) {
    fail("{}: expected dtype F32, F16, BF16, F64, I64, I32, U8 or BOOL, got {}", where, entry["dtype"].dump());
  }
  const auto& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    broken("data_offsets is not a pair of whole numbers");
  }
  const auto begin = offsets[0].get<std::size_t>(), end = offsets[1].get<std::size_t>();
  if (begin > end || end > data.size()) broken("its data lies outside the file");
  Tensor tensor;
  std::size_t count = 1;
  if (!entry["shape"].is_array()) broken("shape is not a list");
  for (const auto& extent : entry["shape"]) {
    if (!extent.is_number_unsigned()) broken("a negative or fractional extent");
    const auto n = extent.get<std::size_t>();
    if (n != 0 && count > data.size() / n) broken("its shape is larger than the file");
    count *= n;
    tensor.shape.push_back(static_cast<std::int64_t>(n));
  }
  if (count * dtype->bytes != end - begin) broken("its shape does not fit its data");
  tensor.values.resize(count);
  dtype->convert(data.data() + begin, tensor.values);
  taken.emplace_back(begin, end);
  return tensor;
}

// The header, each name in it once: JSON alone lets a later one replace an earlier one.
nlohmann::ordered_json parse_header(std::string_view text, const std::string& name) {
  refuse_deep_json(text, name);
  std::set<std::string> names;
  return nlohmann::ordered_json::parse(
      text,
      [&](int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& parsed) {
        if (event != nlohmann::ordered_json::parse_event_t::key || depth != 1) return true;
        if (!names.insert(parsed.get<std::string>()).second) {
          fail("{}: {} appears twice; the file is damaged or not safetensors", name, parsed.dump());
        }
        return true;
      },
      false);
}

// Every byte of the data must belong to one tensor: the format allows neither holes nor overlaps.
void check_cover(std::vector<Offsets> taken, std::size_t size, const std::string& name) {
  std::ranges::sort(taken);
  std::size_t covered = 0;
  for (const auto& [begin, end] : taken) {
    if (begin != covered) {
      fail("{}: {} at byte {} of the data; the file is damaged or not safetensors", name,
           begin < covered ? "two tensors overlap" : "a hole", std::min(begin, covered));
    }
    covered = end;
  }
  if (covered != size) {
    fail("{}: {} behind the last tensor; the file is damaged or not safetensors", name,
         counted(size - covered, "byte"));
  }
}

std::string checksum_of(std::span<const std::string_view> pieces) {
  Fingerprint sum;
  for (const auto piece : pieces) sum.add(piece);
  return sum.text();
}

void check_checksum(std::string_view front, std::string_view data, const std::string& digits, const std::string& name) {
  const std::size_t at = digits_at(front, digits);
  if (at != std::string_view::npos) {
    std::string zeroed(front);
    zeroed.replace(at, kDigits, kDigits, '0');
    if (checksum_of(std::array<std::string_view, 2>{zeroed, data}) == digits) return;
  }
  fail("{}: its checksum does not match: the file is damaged, or another program changed it; restore it", name);
}

}  // namespace

void TensorFile::require_checksum(const std::string& name) const {
  if (checksum.empty()) {
    fail("{}: carries no checksum: it is damaged, or of an older version of Parley; restore it, or run again", name);
  }
}

std::string write_safetensors(Files& files, const std::filesystem::path& path, std::span<const TensorView> tensors,
                              const std::map<std::string, std::string, std::less<>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header[kMetadata] = metadata;
  header[kMetadata][kChecksum] = std::string(kDigits, '0');
  std::size_t offset = 0;
  std::vector<std::string_view> pieces(1);
  for (const auto& tensor : tensors) {
    const std::size_t end = offset + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    pieces.push_back(as_bytes(tensor.values));
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // keeps the data aligned, as the format recommends
  std::string front(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(front.data(), &length, kLengthBytes);
  front += text;
  pieces[0] = front;
  const std::string checksum = checksum_of(pieces);
  front.replace(digits_at(front, std::string(kDigits, '0')), kDigits, checksum);
  pieces[0] = front;
  files.replace(path, pieces);
  return checksum;
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& name) {
  const auto broken = [&](const char* why) { fail("{}: {}; the file is damaged or not safetensors", name, why); };
  if (bytes.size() < kLengthBytes) broken("shorter than its header");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) broken("its header is longer than the file");
  const auto header = parse_header(bytes.substr(kLengthBytes, length), name);
  if (!header.is_object()) broken("its header is not a JSON object");
  const std::string_view data = bytes.substr(kLengthBytes + length);
  TensorFile file;
  std::vector<Offsets> taken;
  for (const auto& [key, entry] : header.items()) {
    if (key == kMetadata) {
      if (!entry.is_object()) broken("__metadata__ is not an object");
      for (const auto& [meta, text] : entry.items()) {
        if (!text.is_string()) broken("__metadata__ holds something other than texts");
        file.metadata[meta] = text.get<std::string>();
      }
      continue;
    }
    file.tensors[key] = parse_tensor(entry, data, name + ": " + key, taken);
  }
  check_cover(std::move(taken), data.size(), name);
  if (const auto carried = file.metadata.find(kChecksum); carried != file.metadata.end()) {
    check_checksum(bytes.substr(0, kLengthBytes + length), data, carried->second, name);
    file.checksum = carried->second;
    file.metadata.erase(carried);
  }
  return file;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(MappedFile(path).bytes(), path.string());
}

std::vector<TensorView> views_of(const Layout& layout, std::span<const float> flat, const std::string& prefix) {
  std::vector<TensorView> views;
  for (const auto& entry : layout.entries()) {
    views.push_back({prefix + entry.name, entry.shape, entry.of(flat)});
    for (const auto& alias : entry.aliases) views.push_back({prefix + alias, entry.shape, entry.of(flat)});
  }
  return views;
}

Flat assemble(const TensorFile& file, const Layout& layout, const std::string& name, const std::string& prefix) {
  Flat flat(layout.size());
  for (const auto& entry : layout.entries()) {
    auto found = file.tensors.find(prefix + entry.name);
    for (const auto& alias : entry.aliases) {
      const auto other = file.tensors.find(prefix + alias);
      if (other == file.tensors.end()) continue;
      if (found == file.tensors.end()) {
        found = other;  // some programs write tied weights once, under any of their names
      } else if (other->second.values != found->second.values) {
        fail("{}: tensors '{}' and '{}' differ; the model ties them, so they must be the same", name,
             prefix + entry.name, prefix + alias);
      }
    }
    if (found == file.tensors.end()) {
      fail("{}: tensor '{}' is missing; the model expects {}", name, prefix + entry.name, layout.describe());
    }
    if (found->second.shape != entry.shape) {
      fail("{}: tensor '{}' has shape {}; the model expects {}", name, prefix + entry.name,
           describe_shape(found->second.shape), describe_shape(entry.shape));
    }
    std::copy(found->second.values.begin(), found->second.values.end(), flat.begin() + entry.offset);
  }
  return flat;
}

}  // namespace parley
