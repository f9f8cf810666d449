// PNG and JPEG files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include "tests/fuzz/parsers/parser_fuzzer.h"
#include "tests/support/jpeg.h"
#include "weft/image/png.h"

namespace weft::fuzz {
namespace {

// What a mutated header may ask for is bounded here, so that a run is one of parsers and not of clearing memory.
constexpr int64_t kMostPixels = int64_t{1} << 16;

} // namespace

std::vector<std::string> seeds() {
  std::string path = std::filesystem::temp_directory_path() / ("weft-image-seed-" + std::to_string(getpid()) + ".png");
  std::vector<std::string> all;
  for (int64_t channels : {1, 3, 4}) {
    image::Image picture{9, 17, channels, std::vector<uint8_t>(static_cast<size_t>(9 * 17 * channels))};
    for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = static_cast<uint8_t>(i * 37);
    image::write_png(path, picture);
    std::ifstream stream(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    for (bool progressive : {false, true}) all.push_back(tests::jpeg_of(picture, progressive));
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
