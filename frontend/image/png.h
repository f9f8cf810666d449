// PNG files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/error.h"

namespace weft::image {

// Row-major pixels, `channels` bytes each: 1 (gray), 3 (red, green, blue) or 4 (with alpha).
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// The picture with that many channels (1, 3 or 4), converted where the file has others; transparent pixels lie on black. Throws Error
// when the file is missing, no PNG, damaged, or larger than kMostPixels.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;
Image read_png(const std::string &path, int64_t channels, Location location = Location::current());

// Replaces the file in one step. Throws Error when it cannot be written, or the image has no pixels or other than 1, 3 or 4 channels.
void write_png(const std::string &path, const Image &image, Location location = Location::current());

} // namespace weft::image
