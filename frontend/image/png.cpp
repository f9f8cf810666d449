#include "weft/image/png.h"

#include <png.h>

#include <algorithm>
#include <cstring>

#include "frontend/image/codec.h"
#include "weft/io/files.h"

namespace weft::image {
namespace {

// libpng's simplified interface, freed on all ways out.
struct Png {
  png_image image;
  Png() {
    std::memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
  }
  ~Png() {
    png_image_free(&image);
  }
};

png_uint_32 format_of(int64_t channels, Location location) {
  check_channels(channels, location);
  return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

// The luma of ITU-R BT.601 in 16 bits behind the point, as JPEG's gray and other readers have it.
uint8_t luma(const uint8_t *rgb) {
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15;
  return static_cast<uint8_t>((rgb[0] * kRed + rgb[1] * kGreen + rgb[2] * kBlue + kHalf) >> 16);
}

// From all that a file has, 1 to 4 channels, to gray or to colors, which are fewer and have no
// alpha: what is transparent lies on black.
void convert(const std::vector<uint8_t> &from, size_t channels, Image &to) {
  const size_t colors = channels > 2 ? 3 : 1;
  auto *result = to.pixels.data();
  for (const uint8_t *pixel = from.data(); pixel < from.data() + from.size(); pixel += channels) {
    const int alpha = channels % 2 == 0 ? pixel[colors] : 255;
    uint8_t shown[3] = {};
    for (size_t c = 0; c < colors; ++c)
      shown[c] = static_cast<uint8_t>((pixel[c] * alpha + 127) / 255);
    if (to.channels == 1)
      *result = colors == 3 ? luma(shown) : shown[0];
    else
      std::copy_n(shown, colors, result);
    result += to.channels;
  }
}

// The rest of reading, once the header is known. bytes: of the file.
Image finish(Png &png, int64_t channels, size_t bytes, const std::string &name, int64_t most_pixels,
             Location location) {
  int64_t height = png.image.height, width = png.image.width;
  check_size(height, width, bytes, most_pixels, name, "PNG", location);
  // With all that the file has: libpng would drop colors and alpha in linear light, which makes
  // other numbers of a picture than its readers elsewhere do.
  png.image.format = format_of(channels, location) |
                     (png.image.format & (PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA));
  // Files of 16 bits are as bright as those of 8, not linear in light, unless they say so.
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const size_t has = PNG_IMAGE_SAMPLE_CHANNELS(png.image.format);
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width) * has);
  if (png_image_finish_read(&png.image, nullptr, pixels.data(), 0, nullptr) == 0)
    fail_to_read(name, "PNG", png.image.message, location);
  if (has == static_cast<size_t>(channels))
    return {height, width, channels, std::move(pixels)};
  Image image{height, width, channels,
              std::vector<uint8_t>(static_cast<size_t>(height * width * channels))};
  convert(pixels, has, image);
  return image;
}

} // namespace

Image decode_png(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                 int64_t most_pixels, Location location) {
  Png png;
  if (png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()) == 0)
    fail_to_read(name, "PNG", png.image.message, location);
  return finish(png, channels, bytes.size(), name, most_pixels, location);
}

Image read_png(const std::string &path, int64_t channels, Location location) {
  check_channels(channels, location);
  Png png;
  if (png_image_begin_read_from_file(&png.image, path.c_str()) == 0)
    fail_to_read(path, "PNG", png.image.message, location);
  return finish(png, channels, size_t{1} << 40, path, kMostPixels, location);
}

void write_png(const std::string &path, const Image &image, Location location) {
  Png png;
  png.image.format = format_of(image.channels, location);
  if (image.height < 1 || image.width < 1 || image.height * image.width > kMostPixels ||
      static_cast<int64_t>(image.pixels.size()) != image.height * image.width * image.channels)
    throw Error(ErrorKind::kValue,
                "png: an image must have height x width x channels bytes of pixels", location);
  png.image.height = static_cast<png_uint_32>(image.height);
  png.image.width = static_cast<png_uint_32>(image.width);
  auto fail = [&] {
    throw Error(ErrorKind::kFile, "'" + path + "' cannot be written as PNG: " + png.image.message,
                location);
  };
  png_alloc_size_t bytes = 0;
  if (png_image_write_to_memory(&png.image, nullptr, &bytes, 0, image.pixels.data(), 0, nullptr) ==
      0)
    fail();
  std::string content(bytes, '\0');
  if (png_image_write_to_memory(&png.image, content.data(), &bytes, 0, image.pixels.data(), 0,
                                nullptr) == 0)
    fail();
  content.resize(bytes);
  io::write_file(path, content, location);
}

} // namespace weft::image
