// Pictures in memory, and reading them from PNG and JPEG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/error.h"

namespace weft::image {

// Row-major pixels, `channels` bytes each: 1 (gray), 3 (red, green, blue) or 4 (with alpha).
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// Larger pictures are refused, and so are those that claim more pixels than their file can hold:
// nothing is allocated for them.
inline constexpr int64_t kMostPixels = int64_t{1} << 28;

// The picture in `bytes`, a whole PNG or JPEG file, with that many channels (1, 3 or 4), converted
// where the file has others; transparent pixels lie on black. `name` stands in the error. Throws
// Error when it is neither, damaged, cut off, or has more than most_pixels.
Image decode_image(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                   int64_t most_pixels = kMostPixels, Location location = Location::current());

// The picture in a file; what it is tell its first bytes, not its name. Throws Error as
// decode_image does, and when the file is missing or cannot be read.
Image read_image(const std::string &path, int64_t channels,
                 Location location = Location::current());

} // namespace weft::image
