// Tensors in files: the safetensors format (8-byte little-endian header length, JSON header, raw little-endian data),
// which Python reads with one line. We write F32, and read whatever numbers PyTorch writes.
//
// Reading checks every length before it is used; a file that lies about itself is an InputError, never a crash. What we
// write carries a checksum of all its bytes among the metadata, so that one flipped bit is an InputError too.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parley/base/files.h"
#include "parley/tensor/flat.h"
#include "parley/tensor/layout.h"

namespace parley {

// One tensor to be written; the values are not copied.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

struct Tensor {
  std::vector<std::int64_t> shape;
  Flat values;
};

// What a file holds: tensors by name, and the free-form `__metadata__` texts.
struct TensorFile {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
  std::string checksum;  // that it carried and that holds; "" for a file of another program

  // Throws InputError for a file without a checksum, where we wrote one; `name` stands in the message.
  void require_checksum(const std::string& name) const;
};

// Deterministic: the same tensors give the same bytes. Order in the file is the order given. Returns the checksum.
std::string write_safetensors(Files& files, const std::filesystem::path& path, std::span<const TensorView> tensors,
                              const std::map<std::string, std::string, std::less<>>& metadata = {});
TensorFile read_safetensors(const std::filesystem::path& path);
// From bytes already in memory; `name` stands in messages.
TensorFile parse_safetensors(std::string_view bytes, const std::string& name);

// The views of a flat vector by layout, each name behind `prefix` ("", "precision/", "slot1/").
std::vector<TensorView> views_of(const Layout& layout, std::span<const float> flat, const std::string& prefix = "");
// The inverse: every entry of the layout must be there with its shape. Throws InputError naming file and tensor.
Flat assemble(const TensorFile& file, const Layout& layout, const std::string& name, const std::string& prefix = "");

}  // namespace parley
