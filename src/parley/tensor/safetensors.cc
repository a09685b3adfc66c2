#include "parley/tensor/safetensors.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "parley/base/errors.h"

namespace parley {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is written as it lies in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeader = 100 << 20;  // the format's own limit

std::string_view as_bytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

Tensor parse_tensor(const nlohmann::ordered_json& entry, std::string_view data, const std::string& where) {
  const auto broken = [&](const char* why) { fail("{}: {}; the file is damaged or not safetensors", where, why); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    broken("expected dtype, shape and data_offsets");
  }
  if (entry["dtype"] != "F32") fail("{}: expected dtype F32, got {}", where, entry["dtype"].dump());
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
  if (count * sizeof(float) != end - begin) broken("its shape does not fit its data");
  tensor.values.resize(count);
  if (count > 0) std::memcpy(tensor.values.data(), data.data() + begin, count * sizeof(float));
  return tensor;
}

}  // namespace

void write_safetensors(Files& files, const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string, std::less<>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
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
  files.replace(path, pieces);
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& name) {
  const auto broken = [&](const char* why) { fail("{}: {}; the file is damaged or not safetensors", name, why); };
  if (bytes.size() < kLengthBytes) broken("shorter than its header");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) broken("its header is longer than the file");
  const auto header = nlohmann::ordered_json::parse(bytes.substr(kLengthBytes, length), nullptr, false);
  if (!header.is_object()) broken("its header is not a JSON object");
  const std::string_view data = bytes.substr(kLengthBytes + length);
  TensorFile file;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") {
      if (!entry.is_object()) broken("__metadata__ is not an object");
      for (const auto& [meta, text] : entry.items()) {
        if (!text.is_string()) broken("__metadata__ holds something other than texts");
        file.metadata[meta] = text.get<std::string>();
      }
      continue;
    }
    file.tensors[key] = parse_tensor(entry, data, name + ": " + key);
  }
  return file;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(MappedFile(path).bytes(), path.string());
}

std::vector<TensorView> views_of(const Layout& layout, std::span<const float> flat, const std::string& prefix) {
  std::vector<TensorView> views;
  for (const auto& entry : layout.entries()) views.push_back({prefix + entry.name, entry.shape, entry.of(flat)});
  return views;
}

Flat assemble(const TensorFile& file, const Layout& layout, const std::string& name, const std::string& prefix) {
  Flat flat(layout.size());
  for (const auto& entry : layout.entries()) {
    const auto found = file.tensors.find(prefix + entry.name);
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
