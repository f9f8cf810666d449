#include "tests/support/jpeg.h"

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace weft::tests {

std::string jpeg_of(const image::Image &image, bool progressive) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 98, TRUE);
  if (progressive)
    jpeg_simple_progression(&info);
  if (image.channels == 4)
    info.write_Adobe_marker = TRUE;
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < image.height; ++y) {
    auto *row = const_cast<uint8_t *>(image.pixels.data() + y * image.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string content(reinterpret_cast<char *>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return content;
}

} // namespace weft::tests
