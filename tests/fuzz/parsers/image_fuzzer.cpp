// PNG and JPEG files.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <jpeglib.h>
#include <unistd.h>

#include "tests/fuzz/parsers/parser_fuzzer.h"
#include "weft/image/png.h"

namespace weft::fuzz {
namespace {

// What a mutated header may ask for is bounded here, so that a run is one of parsers and not of clearing memory.
constexpr int64_t kMostPixels = int64_t{1} << 16;

std::string jpeg(int64_t height, int64_t width, int channels, bool progressive) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::string row(static_cast<size_t>(width * channels), '\0');
  for (int64_t y = 0; y < height; ++y) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<char>(i * 13 + static_cast<size_t>(y) * 29);
    auto *pointer = reinterpret_cast<unsigned char *>(row.data());
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  std::string content(reinterpret_cast<char *>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return content;
}

} // namespace

std::vector<std::string> seeds() {
  std::string path = std::filesystem::temp_directory_path() / ("weft-image-seed-" + std::to_string(getpid()) + ".png");
  std::vector<std::string> all;
  for (int64_t channels : {1, 3, 4}) {
    image::Image picture{9, 7, channels, std::vector<uint8_t>(static_cast<size_t>(63 * channels))};
    for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<uint8_t>(i * 37);
    image::write_png(path, picture);
    std::ifstream stream(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    for (bool progressive : {false, true}) all.push_back(jpeg(9, 17, static_cast<int>(channels), progressive));
  }
  std::filesystem::remove(path);
  return all;
}

void parse(const uint8_t *data, size_t size) {
  for (int64_t channels : {1, 3, 4}) {
    try {
      image::Image picture = image::decode_image({data, size}, channels, "it", kMostPixels);
      // Whatever is accepted has all its pixels.
      if (static_cast<int64_t>(picture.pixels.size()) != picture.height * picture.width * channels) std::abort();
    } catch (const Error &) {
    }
  }
}

// The pixels in the form of the file and in the one that was asked for, and messages.
int64_t allowed_bytes(size_t size) { return std::min(kMostPixels, static_cast<int64_t>(size) * 8256) * 8 + 65536; }

} // namespace weft::fuzz
