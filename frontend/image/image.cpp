#include "weft/image/image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "frontend/image/codec.h"

namespace weft::image {
namespace {

// What deflate makes of constant rows of one bit a pixel, 1,032 to 1; JPEG, with at least a bit for
// 64 pixels, stays below.
constexpr int64_t kMostPixelsPerByte = 1032 * 8;

bool starts_with(std::span<const uint8_t> bytes, std::initializer_list<uint8_t> signature) {
  return bytes.size() >= signature.size() &&
         std::equal(signature.begin(), signature.end(), bytes.begin());
}

} // namespace

void fail_to_read(const std::string &name, const char *format, const std::string &why,
                  Location location) {
  throw Error(ErrorKind::kFile, "'" + name + "' cannot be read as " + format + ": " + why,
              location);
}

void check_channels(int64_t channels, Location location) {
  if (channels != 1 && channels != 3 && channels != 4)
    throw Error(ErrorKind::kValue,
                "an image has 1, 3 or 4 channels, not " + std::to_string(channels), location);
}

void check_size(int64_t height, int64_t width, size_t bytes, int64_t most_pixels,
                const std::string &name, const char *format, Location location) {
  std::string size = std::to_string(height) + " x " + std::to_string(width) + " pixels";
  if (height * width > most_pixels)
    fail_to_read(name, format, "it has " + size + ", more than are read", location);
  if (height * width / kMostPixelsPerByte > static_cast<int64_t>(bytes))
    fail_to_read(name, format,
                 "it claims " + size + ", which its " + std::to_string(bytes) +
                     " bytes cannot hold",
                 location);
}

Image decode_image(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                   int64_t most_pixels, Location location) {
  check_channels(channels, location);
  if (starts_with(bytes, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}))
    return decode_png(bytes, channels, name, most_pixels, location);
  if (starts_with(bytes, {0xff, 0xd8, 0xff}))
    return decode_jpeg(bytes, channels, name, most_pixels, location);
  throw Error(ErrorKind::kFile,
              "'" + name + "' is neither a PNG nor a JPEG file" +
                  (bytes.empty() ? ": it is empty" : ""),
              location);
}

Image read_image(const std::string &path, int64_t channels, Location location) {
  namespace fs = std::filesystem;
  auto fail = [&](const char *why) {
    throw Error(ErrorKind::kFile, "'" + path + "' " + why, location);
  };
  std::error_code error;
  if (!fs::exists(path, error))
    fail("does not exist");
  if (!fs::is_regular_file(path, error))
    fail("is not a file");
  uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file)
    fail("cannot be read");
  std::vector<uint8_t> bytes(size);
  if (!file.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(size)))
    fail("cannot be read to its end");
  return decode_image(bytes, channels, path, kMostPixels, location);
}

} // namespace weft::image
