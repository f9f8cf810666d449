// Private: the two formats, and what they share.
#pragma once

#include "weft/image/image.h"

namespace weft::image {

// What decode_image does for a file of this format. They throw through `fail`, which adds the name
// and the format.
Image decode_png(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                 int64_t most_pixels, Location location);
Image decode_jpeg(std::span<const uint8_t> bytes, int64_t channels, const std::string &name,
                  int64_t most_pixels, Location location);

[[noreturn]] void fail_to_read(const std::string &name, const char *format, const std::string &why,
                               Location location);

// Fails unless channels is 1, 3 or 4.
void check_channels(int64_t channels, Location location);
// Fails when a picture of this size is too large, or cannot stand in a file of so many bytes.
void check_size(int64_t height, int64_t width, size_t bytes, int64_t most_pixels,
                const std::string &name, const char *format, Location location);

} // namespace weft::image
