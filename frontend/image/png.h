// PNG files.
#pragma once

#include "weft/image/image.h"

namespace weft::image {

// read_image() of a file that must be a PNG.
Image read_png(const std::string &path, int64_t channels, Location location = Location::current());

// Replaces the file in one step. Throws Error when it cannot be written, or the image has no pixels
// or other than 1, 3 or 4 channels.
void write_png(const std::string &path, const Image &image,
               Location location = Location::current());

} // namespace weft::image
