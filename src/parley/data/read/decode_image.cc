#include <jerror.h>
#include <png.h>
#include <stdio.h>
// libjpeg's header needs size_t and FILE before it.
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>

#include "parley/base/errors.h"
#include "parley/data/read/images.h"

namespace parley {
namespace {

// A bound that no training image reaches, so that a damaged header cannot ask for all memory.
constexpr std::int64_t kMostPixels = 1 << 26;

void check_extent(const Image& image, const std::string& name) {
  if (image.width <= 0 || image.height <= 0 || image.width * image.height > kMostPixels) {
    fail("{}: {} × {} pixels; expected 1 to {} pixels", name, image.width, image.height, kMostPixels);
  }
}

// Interleaved rows (RGBRGB…) to planes (RR… GG… BB…).
void to_planes(const std::vector<std::uint8_t>& interleaved, Image& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t plane = interleaved.size() / channels;
  image.pixels.resize(interleaved.size());
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < plane; ++i) {
      image.pixels[c * plane + i] = interleaved[i * channels + c];
    }
  }
}

// libjpeg reports an error by a call that must not return. Everything that has a destructor lives
// outside the functions that call setjmp, so the jump skips none.
struct JpegErrors {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer is also ours
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

void on_jpeg_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->escape, 1);
}

// A cut file is only a warning to libjpeg, which would fill up with grey.
void on_jpeg_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_jpeg_error(info);
}

bool begin_jpeg(jpeg_decompress_struct& info, JpegErrors& errors, std::string_view bytes) {
  if (setjmp(errors.escape) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&info);
  return true;
}

bool read_jpeg(jpeg_decompress_struct& info, JpegErrors& errors, std::uint8_t* pixels, std::size_t stride) {
  if (setjmp(errors.escape) != 0) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  JpegErrors errors{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = on_jpeg_error;
  errors.base.emit_message = on_jpeg_message;
  struct Cleanup {
    jpeg_decompress_struct& info;
    ~Cleanup() { jpeg_destroy_decompress(&info); }
  } cleanup{info};

  if (!begin_jpeg(info, errors, bytes)) {
    fail("{}: not a readable JPEG: {}; replace or remove it", name, errors.message);
  }
  if (info.num_components != 1 && info.num_components != 3) {
    fail("{}: {} colour channels; expected 1 (grey) or 3 (colour): convert it", name, info.num_components);
  }
  Image image{.channels = info.num_components, .height = info.output_height, .width = info.output_width};
  check_extent(image, name);
  const auto stride = static_cast<std::size_t>(image.width * image.channels);
  std::vector<std::uint8_t> interleaved(stride * static_cast<std::size_t>(image.height));
  if (!read_jpeg(info, errors, interleaved.data(), stride)) {
    fail("{}: damaged JPEG: {}; replace or remove it", name, errors.message);
  }
  to_planes(interleaved, image);
  return image;
}

Image decode_png(std::string_view bytes, const std::string& name) {
  png_image info{};
  info.version = PNG_IMAGE_VERSION;
  struct Cleanup {
    png_image& info;
    ~Cleanup() { png_image_free(&info); }
  } cleanup{info};
  if (png_image_begin_read_from_memory(&info, bytes.data(), bytes.size()) == 0) {
    fail("{}: not a readable PNG: {}; replace or remove it", name, info.message);
  }
  if ((info.format & (PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_LINEAR)) != 0) {
    fail("{}: has an alpha channel or 16 bits per channel; expected 8-bit grey or colour: convert it", name);
  }
  const bool colour = (info.format & PNG_FORMAT_FLAG_COLOR) != 0;
  info.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image{.channels = colour ? 3 : 1, .height = info.height, .width = info.width};
  check_extent(image, name);
  std::vector<std::uint8_t> interleaved(PNG_IMAGE_SIZE(info));
  if (png_image_finish_read(&info, nullptr, interleaved.data(), 0, nullptr) == 0) {
    fail("{}: damaged PNG: {}; replace or remove it", name, info.message);
  }
  to_planes(interleaved, image);
  return image;
}

}  // namespace

Image decode_image(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\xff\xd8")) return decode_jpeg(bytes, name);
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes, name);
  fail("{}: neither JPEG nor PNG; replace or remove it", name);
}

}  // namespace parley
