#include "weft/image/png.h"

#include <png.h>

#include <cstring>

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
  ~Png() { png_image_free(&image); }
};

png_uint_32 format_of(int64_t channels, Location location) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  if (channels == 3) return PNG_FORMAT_RGB;
  if (channels == 4) return PNG_FORMAT_RGBA;
  throw Error(ErrorKind::kValue, "png: an image has 1, 3 or 4 channels, not " + std::to_string(channels), location);
}

} // namespace

Image read_png(const std::string &path, int64_t channels, Location location) {
  Png png;
  png_uint_32 format = format_of(channels, location);
  auto fail = [&](const std::string &why) { throw Error(ErrorKind::kFile, "'" + path + "' cannot be read as PNG: " + why, location); };
  if (png_image_begin_read_from_file(&png.image, path.c_str()) == 0) fail(png.image.message);
  int64_t height = png.image.height, width = png.image.width;
  if (height * width > kMostPixels)
    fail("it has " + std::to_string(height) + " x " + std::to_string(width) + " pixels, more than are read");
  png.image.format = format;
  Image image{height, width, channels, std::vector<uint8_t>(static_cast<size_t>(height * width * channels))};
  png_color black = {0, 0, 0};
  if (png_image_finish_read(&png.image, &black, image.pixels.data(), 0, nullptr) == 0) fail(png.image.message);
  return image;
}

void write_png(const std::string &path, const Image &image, Location location) {
  Png png;
  png.image.format = format_of(image.channels, location);
  if (image.height < 1 || image.width < 1 || image.height * image.width > kMostPixels ||
      static_cast<int64_t>(image.pixels.size()) != image.height * image.width * image.channels)
    throw Error(ErrorKind::kValue, "png: an image must have height x width x channels bytes of pixels", location);
  png.image.height = static_cast<png_uint_32>(image.height);
  png.image.width = static_cast<png_uint_32>(image.width);
  auto fail = [&] { throw Error(ErrorKind::kFile, "'" + path + "' cannot be written as PNG: " + png.image.message, location); };
  png_alloc_size_t bytes = 0;
  if (png_image_write_to_memory(&png.image, nullptr, &bytes, 0, image.pixels.data(), 0, nullptr) == 0) fail();
  std::string content(bytes, '\0');
  if (png_image_write_to_memory(&png.image, content.data(), &bytes, 0, image.pixels.data(), 0, nullptr) == 0) fail();
  content.resize(bytes);
  io::write_file(path, content, location);
}

} // namespace weft::image
