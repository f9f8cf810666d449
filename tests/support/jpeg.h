// JPEG files for tests; Weft itself writes none.
#pragma once

#include <string>

#include "weft/image/image.h"

namespace weft::tests {

// The picture as a JPEG file's bytes: its channels as they are, 1 (gray), 3 (color) or 4 (inks,
// inverted as Adobe has them).
std::string jpeg_of(const image::Image &image, bool progressive = false);

} // namespace weft::tests
