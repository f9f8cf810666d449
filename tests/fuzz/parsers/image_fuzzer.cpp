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

// What a mutated header may ask for is bounded here, so that a run is one of parsers and not of
// clearing memory.
constexpr int64_t kMostPixels = int64_t{1} << 16;

// PNG's chunks carry a CRC-32 (ISO 3309), which is made right before they are read: damage that it
// shows is no test of what lies behind it.
void correct_checksums(std::vector<uint8_t> &data) {
  constexpr size_t kSignature = 8, kFrame = 12; // a chunk's size, name and sum
  auto big_endian = [&](size_t at) {
    return uint32_t{data[at]} << 24 | uint32_t{data[at + 1]} << 16 | uint32_t{data[at + 2]} << 8 |
           uint32_t{data[at + 3]};
  };
  if (data.size() < kSignature || data[0] != 0x89 || data[1] != 'P')
    return;
  for (size_t at = kSignature; at + kFrame <= data.size();) {
    size_t length = big_endian(at);
    if (length > data.size() - at - kFrame)
      return;
    uint32_t sum = ~uint32_t{0};
    for (size_t i = at + 4; i < at + 8 + length; ++i) {
      sum ^= data[i];
      for (int bit = 0; bit < 8; ++bit)
        sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
    }
    for (size_t i = 0; i < 4; ++i)
      data[at + 8 + length + i] = static_cast<uint8_t>(~sum >> (24 - 8 * i));
    at += kFrame + length;
  }
}

} // namespace

std::vector<std::string> seeds() {
  std::string path = std::filesystem::temp_directory_path() /
                     ("weft-image-seed-" + std::to_string(getpid()) + ".png");
  std::vector<std::string> all;
  for (int64_t channels : {1, 3, 4}) {
    image::Image picture{9, 17, channels,
                         std::vector<uint8_t>(static_cast<size_t>(9 * 17 * channels))};
    for (size_t i = 0; i < picture.pixels.size(); ++i)
      picture.pixels[i] = static_cast<uint8_t>(i * 37);
    image::write_png(path, picture);
    std::ifstream stream(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    for (bool progressive : {false, true})
      all.push_back(tests::jpeg_of(picture, progressive));
  }
  std::filesystem::remove(path);
  return all;
}

bool parse(const uint8_t *bytes, size_t size) {
  std::vector<uint8_t> data(bytes, bytes + size);
  correct_checksums(data);
  bool accepted = false;
  for (int64_t channels : {1, 3, 4}) {
    try {
      image::Image picture = image::decode_image(data, channels, "it", kMostPixels);
      // Whatever is accepted has all its pixels.
      if (static_cast<int64_t>(picture.pixels.size()) != picture.height * picture.width * channels)
        std::abort();
      accepted = true;
    } catch (const Error &) {}
  }
  return accepted;
}

// The bytes, the pixels in the form of the file and in the one that was asked for, and messages.
int64_t allowed_bytes(size_t size) {
  return std::min(kMostPixels, static_cast<int64_t>(size) * 8256) * 8 + static_cast<int64_t>(size) +
         65536;
}

} // namespace weft::fuzz
