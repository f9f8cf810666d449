#include "examples/digits/confusion_image.h"

#include <cmath>
#include <vector>

#include "weft/image/png.h"

namespace digits {

// Pixels of a square, and between squares.
static constexpr int64_t kSquare = 32, kGap = 2;

void write_confusion_image(const std::string &path, const Confusion &confusion) {
  int64_t pitch = kSquare + kGap, size = confusion.classes * pitch + kGap;
  weft::image::Image image{size, size, 3,
                           std::vector<uint8_t>(static_cast<size_t>(size * size * 3), 255)};
  for (int64_t is = 0; is < confusion.classes; ++is) {
    int64_t row_total = 0;
    for (int64_t taken = 0; taken < confusion.classes; ++taken)
      row_total += confusion.at(is, taken);
    for (int64_t taken = 0; taken < confusion.classes; ++taken) {
      double share = row_total == 0 ? 0
                                    : static_cast<double>(confusion.at(is, taken)) /
                                          static_cast<double>(row_total);
      // The root makes single errors visible.
      double light = 235 * (1 - std::sqrt(share));
      bool right = is == taken;
      uint8_t color[3] = {static_cast<uint8_t>(right ? light : 235), static_cast<uint8_t>(light),
                          static_cast<uint8_t>(right ? 235 : light)};
      for (int64_t y = 0; y < kSquare; ++y)
        for (int64_t x = 0; x < kSquare; ++x) {
          size_t at =
              static_cast<size_t>(((is * pitch + kGap + y) * size + taken * pitch + kGap + x) * 3);
          std::copy(color, color + 3, image.pixels.begin() + static_cast<std::ptrdiff_t>(at));
        }
    }
  }
  weft::image::write_png(path, image);
}

} // namespace digits
