#include "parley/data/read/images.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/pool.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

namespace fs = std::filesystem;

// Throws InputError for an image of another kind: left out in silence, it would be missed by nobody.
bool is_image(const fs::path& path) {
  static constexpr std::array<std::string_view, 7> kOthers{".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif"};
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::ranges::find(kOthers, extension) != kOthers.end()) {
    fail("{}: {} images are not read; convert them to .png (mogrify -format png *{}) and remove the originals",
         path.string(), extension, extension);
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) names.push_back(name);
  }
  if (error) fail("{}: the folder cannot be read: {}", folder.string(), error.message());
  if (names.empty()) {
    fail("{}: expected one folder per class with .jpg or .png files, found none", folder.string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Listing {
  std::vector<fs::path> files;
  std::vector<std::int32_t> labels;
};

Listing list_images(const fs::path& folder, const std::vector<std::string>& classes) {
  Listing listing;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder / classes[c])) {
      if (is_image(entry.path())) files.push_back(entry.path());
    }
    if (files.empty()) {
      fail("{}: holds no .jpg, .jpeg or .png file; add images or remove the folder", (folder / classes[c]).string());
    }
    std::sort(files.begin(), files.end());
    listing.labels.insert(listing.labels.end(), files.size(), static_cast<std::int32_t>(c));
    std::move(files.begin(), files.end(), std::back_inserter(listing.files));
  }
  return listing;
}

Image decode_file(const fs::path& file) {
  return decode_image(read_file(file), file.string());
}

}  // namespace

std::size_t image_workers() {
  return std::max(8u, std::thread::hardware_concurrency());
}

Dataset read_image_folder(const fs::path& folder, const std::vector<std::string>& classes, std::size_t workers) {
  const std::vector<std::string> found = class_folders(folder);
  if (!classes.empty() && found != classes) {
    fail("{}: expected the class folders {}; found {}", folder.string(), fmt::join(classes, ", "),
         fmt::join(found, ", "));
  }
  Listing listing = list_images(folder, found);
  const Image first = decode_file(listing.files.front());
  const std::size_t size = first.pixels.size();
  const std::int64_t extents[] = {static_cast<std::int64_t>(listing.files.size()), static_cast<std::int64_t>(size)};
  std::vector<std::uint8_t> pixels(checked_product(extents, folder.string()));
  run_jobs(workers, listing.files.size(), [&](std::size_t, std::size_t i) {
    const Image image = decode_file(listing.files[i]);
    if (image.channels != first.channels || image.height != first.height || image.width != first.width) {
      fail(
          "{}: {} × {} × {} (channels, height, width); expected {} × {} × {} as in {}: bring all "
          "to one size",
          listing.files[i].string(), image.channels, image.height, image.width, first.channels, first.height,
          first.width, listing.files.front().string());
    }
    std::copy(image.pixels.begin(), image.pixels.end(), pixels.begin() + static_cast<std::ptrdiff_t>(i * size));
  });
  Dataset data;
  data.shape = {first.channels, first.height, first.width};
  data.values = std::move(pixels);
  data.labels = std::move(listing.labels);
  data.classes = found.size();
  data.class_names = found;
  return data;
}

}  // namespace parley
