#include "parley/data/read/images.h"

#include <png.h>
#include <stdio.h>
// libjpeg's header needs size_t and FILE before it.
#include <jpeglib.h>

#include "parley/base/files.h"
#include "parley/data/test_folder.h"

namespace parley {
namespace {

std::string png_bytes(std::uint32_t format, std::uint32_t width, std::uint32_t height,
                      const std::vector<std::uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = format;
  image.width = width;
  image.height = height;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

std::string jpeg_bytes(unsigned width, unsigned height, int channels, std::uint8_t fill) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row(width * static_cast<unsigned>(channels));
  while (info.next_scanline < height) {
    // Some texture, so that a cut file lacks something.
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::uint8_t>(fill + 37 * i * info.next_scanline);
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(buffer), size);
  free(buffer);
  jpeg_destroy_compress(&info);
  return bytes;
}

TEST(Images, PngKeepsItsBytesAsPlanes) {
  const Image image = decode_image(png_bytes(PNG_FORMAT_RGB, 2, 1, {1, 2, 3, 4, 5, 6}), "x.png");
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.pixels, (std::vector<std::uint8_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(decode_image(png_bytes(PNG_FORMAT_GRAY, 1, 2, {9, 8}), "x.png").pixels, (std::vector<std::uint8_t>{9, 8}));
}

TEST(Images, JpegGreyAndColour) {
  const Image grey = decode_image(jpeg_bytes(8, 4, 1, 100), "x.jpg");
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.height, 4);
  EXPECT_NEAR(grey.pixels[0], 100, 12);
  EXPECT_EQ(decode_image(jpeg_bytes(8, 4, 3, 100), "x.jpg").pixels.size(), 96u);
}

TEST(Images, RefusesDamagedAndStrangeImages) {
  const auto refuse = [](const std::string& bytes, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { decode_image(bytes, "x.img"); }, pieces);
  };
  const std::string jpeg = jpeg_bytes(32, 32, 3, 50), png = png_bytes(PNG_FORMAT_GRAY, 2, 2, {1, 2, 3, 4});
  refuse("GIF89a", {"x.img", "neither JPEG nor PNG"});
  refuse(jpeg.substr(0, jpeg.size() * 2 / 3), {"x.img", "damaged JPEG"});
  refuse(jpeg.substr(0, 20), {"x.img", "JPEG"});
  refuse(png.substr(0, png.size() - 20), {"x.img", "PNG"});
  refuse(png.substr(0, 12), {"x.img", "PNG"});
  refuse(png_bytes(PNG_FORMAT_RGBA, 1, 1, {1, 2, 3, 4}), {"x.img", "alpha"});
  refuse(jpeg_bytes(8, 8, 4, 1), {"x.img", "4 colour channels"});
}

TEST(Images, ReadsAFolderInSortedOrderForAnyNumberOfWorkers) {
  const TestFolder folder;
  folder.write("dog/b.png", png_bytes(PNG_FORMAT_GRAY, 1, 1, {3}));
  folder.write("dog/a.PNG", png_bytes(PNG_FORMAT_GRAY, 1, 1, {2}));
  folder.write("cat/z.png", png_bytes(PNG_FORMAT_GRAY, 1, 1, {1}));
  folder.write("cat/notes.txt", "x");
  for (const std::size_t workers : {1, 3}) {
    const Dataset data = read_image_folder(folder.path(), {}, workers);
    EXPECT_EQ(data.class_names, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(std::get<0>(data.values), (std::vector<std::uint8_t>{1, 2, 3}));
    EXPECT_EQ(data.labels, (std::vector<std::int32_t>{0, 1, 1}));
  }
  expect_refusal([&] { read_image_folder(folder.path(), {"cat"}, 1); }, {"expected the class folders cat", "cat, dog"});
  folder.write("dog/c.png", png_bytes(PNG_FORMAT_GRAY, 2, 1, {3, 4}));
  expect_refusal([&] { read_image_folder(folder.path(), {}, 2); }, {"c.png", "1 × 1 × 2", "1 × 1 × 1"});
}

TEST(Images, RefusesKindsThatItDoesNotRead) {
  const TestFolder folder;
  folder.write("a/0.png", png_bytes(PNG_FORMAT_GRAY, 1, 1, {1}));
  folder.write("a/1.WebP", "RIFF");
  expect_refusal([&] { read_image_folder(folder.path(), {}, 1); }, {"a/1.WebP", ".webp", "convert", ".png"});
}

TEST(Images, RefusesEmptyFolders) {
  const TestFolder folder;
  expect_refusal([&] { read_image_folder(folder.path() / "absent", {}, 1); }, {"absent", "cannot be read"});
  expect_refusal([&] { read_image_folder(folder.path(), {}, 1); }, {"one folder per class"});
  folder.write("cat/notes.txt", "x");
  expect_refusal([&] { read_image_folder(folder.path(), {}, 1); }, {"cat", "holds no .jpg"});
}

}  // namespace
}  // namespace parley
