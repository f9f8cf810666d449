#include "tests/support/errors.h"
#include "tests/support/jpeg.h"
#include "weft/image/image.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "weft/image/png.h"

namespace weft::image {
namespace {

using tests::jpeg_of;

std::string scratch(const std::string &name) {
  const char *base = std::getenv("TEST_TMPDIR");
  return std::string(base ? base : "/tmp") + "/" + name;
}
std::string content_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A smooth picture, which JPEG keeps well.
Image smooth(int64_t height, int64_t width, int64_t channels) {
  Image image{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        image.pixels.push_back(
            static_cast<uint8_t>(30 + 100 * y / height + (40 + 20 * c) * x / width));
  return image;
}

void expect_close(const Image &image, const Image &expected, int tolerance) {
  ASSERT_EQ(image.height, expected.height);
  ASSERT_EQ(image.width, expected.width);
  ASSERT_EQ(image.pixels.size(), expected.pixels.size());
  for (size_t i = 0; i < image.pixels.size(); ++i)
    ASSERT_NEAR(image.pixels[i], expected.pixels[i], tolerance) << i;
}

TEST(Png, ComesBackAsWritten) {
  for (int64_t channels : {1, 3, 4}) {
    Image image{3, 5, channels, std::vector<uint8_t>(static_cast<size_t>(15 * channels))};
    for (size_t i = 0; i < image.pixels.size(); ++i)
      image.pixels[i] = static_cast<uint8_t>(i * 37);
    write_png(scratch("image.png"), image);
    for (const Image &back :
         {read_png(scratch("image.png"), channels), read_image(scratch("image.png"), channels)}) {
      EXPECT_EQ(back.height, 3);
      EXPECT_EQ(back.width, 5);
      EXPECT_EQ(back.pixels, image.pixels) << channels << " channels";
    }
  }
}

TEST(Png, ConvertsChannels) {
  write_png(scratch("gray.png"), {1, 2, 1, {0, 200}});
  EXPECT_EQ(read_png(scratch("gray.png"), 3).pixels,
            (std::vector<uint8_t>{0, 0, 0, 200, 200, 200}));
}

// As other readers have it: PIL's convert("L") of the same colors gives 76, 150, 29 and 117.
TEST(Png, ColorsBecomeGrayByTheirLuma) {
  write_png(scratch("color.png"), {2, 2, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 160, 180}});
  EXPECT_EQ(read_png(scratch("color.png"), 1).pixels, (std::vector<uint8_t>{76, 150, 29, 117}));
}

TEST(Png, WhatIsTransparentLiesOnBlack) {
  write_png(scratch("alpha.png"), {1, 3, 4, {255, 255, 255, 50, 200, 100, 0, 128, 9, 9, 9, 0}});
  EXPECT_EQ(read_png(scratch("alpha.png"), 3).pixels,
            (std::vector<uint8_t>{50, 50, 50, 100, 50, 0, 0, 0, 0}));
  EXPECT_EQ(read_png(scratch("alpha.png"), 1).pixels, (std::vector<uint8_t>{50, 59, 0}));
}

// Of 16 bits: 0, 0x4040, 0x8080 and 0xffff in a row; and one pixel of 0x2020, 0x8080 and 0xc0c0.
const unsigned char kGray16[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x01, 0x10, 0x00, 0x00, 0x00, 0x00, 0x8c,
    0xc7, 0x8c, 0x52, 0x00, 0x00, 0x00, 0x11, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60,
    0x60, 0x70, 0x70, 0x68, 0x68, 0xf8, 0xff, 0x1f, 0x00, 0x09, 0x46, 0x03, 0x7f, 0x13, 0x39,
    0x7a, 0x47, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
const unsigned char kColor16[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
    0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x10, 0x02, 0x00, 0x00, 0x00, 0xc0,
    0xe7, 0x8f, 0x9d, 0x00, 0x00, 0x00, 0x0f, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x50,
    0x50, 0x68, 0x68, 0x38, 0x70, 0x00, 0x00, 0x07, 0x27, 0x02, 0xc1, 0x97, 0xc3, 0xeb, 0x7c,
    0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

TEST(Png, SixteenBitsAreAsBrightAsEight) {
  auto bytes_of = [](std::span<const unsigned char> bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  write(scratch("gray16.png"), bytes_of(kGray16));
  write(scratch("color16.png"), bytes_of(kColor16));
  expect_close(read_image(scratch("gray16.png"), 1), {1, 4, 1, {0, 0x40, 0x80, 0xff}}, 1);
  expect_close(read_png(scratch("color16.png"), 3), {1, 1, 3, {0x20, 0x80, 0xc0}}, 1);
}

TEST(Png, RefusesWhatIsNone) {
  write(scratch("text.png"), "no picture");
  EXPECT_THROW(read_png(scratch("text.png"), 1), Error);
  EXPECT_THROW(read_png(scratch("missing.png"), 1), Error);
  EXPECT_THROW(read_png(scratch("text.png"), 2), Error);
  EXPECT_THROW(write_png(scratch("bad.png"), {2, 2, 1, {0}}), Error);
  EXPECT_THROW(write_png(scratch("no/such/folder/x.png"), {1, 1, 1, {0}}), Error);
}

TEST(Jpeg, ReadsGrayColorAndInks) {
  for (bool progressive : {false, true}) {
    Image gray = smooth(17, 23, 1), color = smooth(17, 23, 3);
    write(scratch("gray.jpg"), jpeg_of(gray, progressive));
    write(scratch("color.jpg"), jpeg_of(color, progressive));
    expect_close(read_image(scratch("gray.jpg"), 1), gray, 3);
    expect_close(read_image(scratch("color.jpg"), 3), color,
                 8); // the chroma has half the resolution
    // Converted: gray to color and back, and an opaque alpha.
    Image wide = read_image(scratch("gray.jpg"), 4);
    for (size_t i = 0; i < wide.pixels.size(); i += 4) {
      ASSERT_EQ(wide.pixels[i], wide.pixels[i + 2]);
      ASSERT_EQ(wide.pixels[i + 3], 255);
    }
    Image luminance = read_image(scratch("color.jpg"), 1);
    for (size_t i = 0; i < luminance.pixels.size(); ++i)
      ASSERT_NEAR(luminance.pixels[i],
                  0.299 * color.pixels[3 * i] + 0.587 * color.pixels[3 * i + 1] +
                      0.114 * color.pixels[3 * i + 2],
                  8);
  }
  // No ink is white, black ink alone is gray: 255 is none.
  Image inks{8, 8, 4, {}};
  for (int i = 0; i < 64; ++i)
    inks.pixels.insert(inks.pixels.end(), {255, 255, 255, 100});
  write(scratch("inks.jpg"), jpeg_of(inks));
  for (uint8_t value : read_image(scratch("inks.jpg"), 3).pixels)
    EXPECT_NEAR(value, 100, 3);
}

TEST(Image, NamesTheFileThatIsNone) {
  write(scratch("text.jpg"), "no picture at all");
  EXPECT_MESSAGE(read_image(scratch("text.jpg"), 3), "text.jpg' is neither a PNG nor a JPEG file");
  write(scratch("empty.png"), "");
  EXPECT_MESSAGE(read_image(scratch("empty.png"), 3),
                 "empty.png' is neither a PNG nor a JPEG file: it is empty");
  EXPECT_MESSAGE(read_image(scratch("nowhere.png"), 3), "nowhere.png' does not exist");
  EXPECT_MESSAGE(read_image(scratch("."), 3), "is not a file");
  EXPECT_MESSAGE(read_image(scratch("text.jpg"), 2), "1, 3 or 4 channels, not 2");
}

// Every cut of a file and damage to its middle is an error that names it, or leaves a picture of
// the same size; nothing else.
TEST(Image, RefusesDamagedFiles) {
  Image image = smooth(24, 24, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] ^= static_cast<uint8_t>(i * 2654435761u >> 27);
  write_png(scratch("whole.png"), image);
  const std::pair<std::string, std::string> files[] = {
      {"cut.png", content_of(scratch("whole.png"))},
      {"cut.jpg", jpeg_of(image)},
      {"cut2.jpg", jpeg_of(image, true)}};
  for (const auto &[name, content] : files) {
    size_t end =
        content.size() - (name.ends_with("png")
                              ? 12
                              : 2); // the mark of the end may be missing: the picture is whole
    for (size_t size = 0; size < end; size += 1 + size / 8) {
      write(scratch(name), content.substr(0, size));
      EXPECT_MESSAGE(read_image(scratch(name), 3), name + "'");
    }
    for (size_t at = 0; at < content.size(); at += 7) {
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      write(scratch(name), damaged);
      try {
        Image read = read_image(scratch(name), 3);
        EXPECT_EQ(read.pixels.size(), static_cast<size_t>(read.height * read.width * 3));
      } catch (const Error &error) {
        EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
      }
    }
  }
}

// A header alone must not make us allocate gigabytes.
TEST(Image, RefusesWhatItsBytesCannotHold) {
  std::string jpeg = jpeg_of(smooth(16, 16, 1));
  size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x3f\xff\x3f\xff", 4)); // 16,383 x 16,383
  write(scratch("bomb.jpg"), jpeg);
  EXPECT_MESSAGE(read_image(scratch("bomb.jpg"), 1), "it claims 16383 x 16383 pixels, which its");
  jpeg.replace(frame + 5, 4, std::string("\x7f\xff\x7f\xff", 4));
  write(scratch("bomb.jpg"), jpeg);
  EXPECT_MESSAGE(read_image(scratch("bomb.jpg"), 1), "more than are read");
}

} // namespace
} // namespace weft::image
