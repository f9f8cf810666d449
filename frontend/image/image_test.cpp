#include "weft/image/png.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

namespace weft::image {
namespace {

std::string scratch(const std::string &name) {
  const char *base = std::getenv("TEST_TMPDIR");
  return std::string(base ? base : "/tmp") + "/" + name;
}

TEST(Png, ComesBackAsWritten) {
  for (int64_t channels : {1, 3, 4}) {
    Image image{3, 5, channels, std::vector<uint8_t>(static_cast<size_t>(15 * channels))};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 37);
    write_png(scratch("image.png"), image);
    Image back = read_png(scratch("image.png"), channels);
    EXPECT_EQ(back.height, 3);
    EXPECT_EQ(back.width, 5);
    EXPECT_EQ(back.pixels, image.pixels) << channels << " channels";
  }
}

TEST(Png, ConvertsChannels) {
  write_png(scratch("gray.png"), {1, 2, 1, {0, 200}});
  EXPECT_EQ(read_png(scratch("gray.png"), 3).pixels, (std::vector<uint8_t>{0, 0, 0, 200, 200, 200}));
}

TEST(Png, RefusesWhatIsNone) {
  std::ofstream(scratch("text.png")) << "no picture";
  EXPECT_THROW(read_png(scratch("text.png"), 1), Error);
  EXPECT_THROW(read_png(scratch("missing.png"), 1), Error);
  EXPECT_THROW(read_png(scratch("text.png"), 2), Error);
  EXPECT_THROW(write_png(scratch("bad.png"), {2, 2, 1, {0}}), Error);
  EXPECT_THROW(write_png(scratch("no/such/folder/x.png"), {1, 1, 1, {0}}), Error);
}

TEST(Png, RefusesADamagedFile) {
  write_png(scratch("whole.png"), {8, 8, 1, std::vector<uint8_t>(64, 7)});
  std::ifstream file(scratch("whole.png"), std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  std::ofstream(scratch("cut.png"), std::ios::binary) << content.substr(0, content.size() / 2);
  EXPECT_THROW(read_png(scratch("cut.png"), 1), Error);
}

} // namespace
} // namespace weft::image
