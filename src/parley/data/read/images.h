// Image folders: <folder>/<class>/*.jpg|jpeg|png, the class being the folder's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "parley/data/dataset.h"

namespace parley {

// One decoded image: channels (1 or 3) × height × width bytes, channel by channel.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// JPEG or PNG, told apart by their first bytes. Throws InputError naming `name` (damaged, alpha
// channel, 16 bit, CMYK).
Image decode_image(std::string_view bytes, const std::string& name);

// Rows in the order of the sorted class names, then of the sorted file names. All images must have
// one size. `classes` are the class folders that must be there, in order; empty means whatever is
// there. Decodes on `workers` threads; the result does not depend on their number.
Dataset read_image_folder(const std::filesystem::path& folder, const std::vector<std::string>& classes,
                          std::size_t workers);
// A good number of workers: more than cores, because small files on a cold disk are mostly waited
// for.
std::size_t image_workers();

}  // namespace parley
