#include "tests/support/errors.h"
#include "weft/image/transforms.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::image {
namespace {

using data::SplitMix64;

// 0, 1, 2, ... in two channels.
Planes counting(int64_t height, int64_t width, int64_t channels = 2) {
  Planes planes{channels, height, width,
                std::vector<float>(static_cast<size_t>(channels * height * width))};
  std::iota(planes.values.begin(), planes.values.end(), 0.0f);
  return planes;
}
Planes apply(const Transform &transform, Planes planes, uint64_t seed = 1) {
  SplitMix64 random(seed);
  return transform(std::move(planes), random);
}

TEST(Transforms, PlanesOfAnImage) {
  Planes planes = to_planes({1, 2, 3, {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(planes.values, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

// resize() of weft/images.h, which tests/golden compares with PyTorch's interpolate.
TEST(Transforms, ResizeIsPyTorchsBilinear) {
  SplitMix64 random(3);
  Planes planes{3, 7, 5, {}};
  for (int i = 0; i < 105; ++i)
    planes.values.push_back(static_cast<float>(random.uniform() * 255));
  Tensor x = Tensor::from(planes.values, {1, 3, 7, 5});
  for (auto [height, width] : {std::pair{14, 10}, {3, 4}, {7, 5}, {1, 1}, {20, 2}}) {
    Planes resized = apply(Resize(height, width), planes);
    EXPECT_EQ(resized.height, height);
    EXPECT_EQ(resized.width, width);
    std::vector<float> expected =
        resize(x, {height, width}, {.mode = weft::Resize::kBilinear}).to_vector<float>();
    ASSERT_EQ(resized.values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(resized.values[i], expected[i], 1e-3) << height << " x " << width;
  }
  EXPECT_EQ(apply(ResizeShorterSide(10), planes).height, 14);
  EXPECT_EQ(apply(ResizeShorterSide(10), planes).width, 10);
  EXPECT_EQ(apply(ResizeShorterSide(3), counting(5, 8)).width, 4); // 4.8, rounded down
  EXPECT_MESSAGE(Resize(0, 4), "at least 1, they are 0 and 4");
}

TEST(Transforms, ARefusedPictureIsAnErrorAtTheCall) {
  SplitMix64 random(1);
  auto expect_here = [](auto call, int line) {
    try {
      call();
      ADD_FAILURE() << "no error at line " << line;
    } catch (const Error &error) {
      EXPECT_NE(error.file().find("transforms_test.cpp"), std::string::npos) << error.what();
      EXPECT_EQ(error.line(), line) << error.what();
    }
  };
  Planes planes = counting(4, 4);
  expect_here([&] { CenterCrop(8, 8)(planes, random); }, __LINE__);
  expect_here([&] { RandomCrop(8, 8)(planes, random); }, __LINE__);
  expect_here([&] { Resize(4, 4)(counting(0, 2), random); }, __LINE__);
  expect_here([&] { ResizeShorterSide(4)(counting(0, 2), random); }, __LINE__);
  expect_here([&] { RandomResizedCrop(4, 4)(counting(0, 2), random); }, __LINE__);
  expect_here([&] { Normalize({1, 2, 3}, {1, 2, 3})(planes, random); }, __LINE__);
  expect_here([&] { Compose({CenterCrop(8, 8)})(planes, random); }, __LINE__);
}

TEST(Transforms, NoPictureIsMadeOfNothingOrTooLarge) {
  using testing_support::error_of;
  for (const Planes &empty : {counting(0, 28), counting(28, 0), counting(2, 2, 0)})
    for (const auto &[name, transform] : {std::pair<std::string, Transform>{"Resize", Resize(4, 4)},
                                          {"Resize", Resize(4, 4, ResizeFilter::kSmooth)},
                                          {"ResizeShorterSide", ResizeShorterSide(4)},
                                          {"RandomResizedCrop", RandomResizedCrop(4, 4)}}) {
      Error error = error_of([&] { apply(transform, empty); });
      EXPECT_EQ(error.kind(), ErrorKind::kShape);
      EXPECT_EQ(error.message(), name + ": the picture of " + std::to_string(empty.channels) +
                                     " channels and " + std::to_string(empty.height) + " x " +
                                     std::to_string(empty.width) + " pixels is empty");
    }
  EXPECT_EQ(error_of([&] { apply(ResizeShorterSide(256), counting(1, 60000, 3)); }).message(),
            "ResizeShorterSide: the picture of 1 x 60000 pixels would become one of 256 x "
            "15360000, more than 268435456 in all; cut it first");
  EXPECT_MESSAGE(apply(ResizeShorterSide(256), counting(60000, 1)), "one of 15360000 x 256");
  EXPECT_MESSAGE(apply(ResizeShorterSide(int64_t{1} << 60), counting(1, 60)),
                 "more than 268435456");
  EXPECT_MESSAGE(apply(ResizeShorterSide(int64_t{1} << 40), counting(4, 4)), "more than 268435456");
  EXPECT_MESSAGE(apply(Resize(1, 300, ResizeFilter::kSmooth), counting(1000000, 1, 1)),
                 "one of 1000000 x 300");
  EXPECT_EQ(apply(ResizeShorterSide(2), counting(1, 60000, 1)).width, 120000);
}

// F.interpolate(x, size, mode="bilinear", antialias=True) of PyTorch 2.
TEST(Transforms, ASmoothResizeIsPyTorchsWithAntialias) {
  Planes planes{1, 6, 8, {}};
  for (int i = 0; i < 48; ++i)
    planes.values.push_back(static_cast<float>((i * 37 + i * i * 11) % 101));
  const std::map<std::pair<int64_t, int64_t>, std::vector<float>> expected = {
      {{3, 4},
       {42.9592f, 30.3036f, 31.7857f, 38.7143f, 53.5f, 42.6719f, 49.1406f, 28.9107f, 46.4694f,
        35.2143f, 42.1607f, 46.3673f}},
      {{2, 3}, {45.1908f, 35.3542f, 35.852f, 44.5987f, 42.3274f, 40.898f}},
      {{4, 10}, // narrower one way, wider the other
       {34.125f,  34.3875f, 33.0625f, 26.0f,    13.2f,    15.8f,    33.8f,    33.4375f,
        34.9125f, 56.875f,  77.8889f, 55.5667f, 57.8889f, 56.5778f, 29.1889f, 56.4778f,
        52.0333f, 54.0556f, 42.3444f, 2.4444f,  46.1111f, 44.6333f, 37.1111f, 29.3222f,
        30.2444f, 54.4222f, 46.8667f, 28.9444f, 20.8556f, 33.2222f, 66.875f,  42.8125f,
        38.9375f, 36.9f,    22.8125f, 68.3125f, 40.8375f, 26.5625f, 44.425f,  86.25f}},
      {{1, 1}, {40.9653f}}};
  for (const auto &[size, values] : expected) {
    Planes resized = apply(Resize(size.first, size.second, ResizeFilter::kSmooth), planes);
    ASSERT_EQ(resized.values.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(resized.values[i], values[i], 1e-3) << size.first << " x " << size.second;
  }
  EXPECT_EQ(apply(ResizeShorterSide(3, ResizeFilter::kSmooth), planes).values,
            apply(Resize(3, 4, ResizeFilter::kSmooth), planes).values);
}

// What part of a picture was taken shows in one whose pixels say where they stand.
TEST(Transforms, RandomResizedCropsHaveTheAreasAndRatiosAskedFor) {
  Planes places{2, 60, 90, {}}; // rows, then columns
  for (int64_t channel = 0; channel < 2; ++channel)
    for (int64_t y = 0; y < 60; ++y)
      for (int64_t x = 0; x < 90; ++x)
        places.values.push_back(static_cast<float>(channel ? x : y));
  // As many pixels as a part may have at most: none is smoothed away, and the outer ones are those
  // of the part.
  RandomResizedCropOptions options{.min_area = 0.2, .max_area = 0.5};
  double least = 1, most = 0, flattest = 0, steepest = 10;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Planes part = apply(RandomResizedCrop(90, 90, options), places, seed);
    ASSERT_EQ(part.values.size(), 2u * 90 * 90);
    auto [top, bottom] = std::minmax_element(part.values.begin(), part.values.begin() + 8100);
    auto [left, right] = std::minmax_element(part.values.begin() + 8100, part.values.end());
    double height = *bottom - *top + 1, width = *right - *left + 1;
    double area = height * width / (60 * 90), ratio = width / height;
    least = std::min(least, area), most = std::max(most, area);
    flattest = std::max(flattest, ratio), steepest = std::min(steepest, ratio);
  }
  EXPECT_NEAR(least, 0.2, 0.02);
  EXPECT_NEAR(most, 0.5, 0.02);
  EXPECT_NEAR(flattest, 4.0 / 3, 0.05);
  EXPECT_NEAR(steepest, 3.0 / 4, 0.05);
}

TEST(Transforms, ARandomResizedCropOfAStripIsItsMiddle) {
  Planes strip{1, 4, 100, std::vector<float>(400)};
  for (size_t i = 0; i < 400; ++i)
    strip.values[i] = static_cast<float>(i % 100);
  // No part of half the area has a ratio in the range; of 4 rows, 5 columns do.
  Planes middle = apply(RandomResizedCrop(4, 5, {.min_area = 0.5}), strip);
  EXPECT_EQ(std::vector<float>(middle.values.begin(), middle.values.begin() + 5),
            (std::vector<float>{47, 48, 49, 50, 51}));
  EXPECT_MESSAGE(RandomResizedCrop(0, 4), "at least 1");
  EXPECT_MESSAGE(RandomResizedCrop(4, 4, {.min_area = 0}), "areas must be");
  EXPECT_MESSAGE(RandomResizedCrop(4, 4, {.min_area = 0.5, .max_area = 0.4}), "areas must be");
  EXPECT_MESSAGE(RandomResizedCrop(4, 4, {.min_ratio = 2, .max_ratio = 1}), "ratios must be");
}

TEST(Transforms, Crops) {
  EXPECT_EQ(apply(CenterCrop(1, 2), counting(3, 4, 1)).values, (std::vector<float>{5, 6}));
  EXPECT_EQ(apply(CenterCrop(2, 2), counting(3, 3, 1)).values,
            (std::vector<float>{0, 1, 3, 4})); // 0.5 rounds to 0
  EXPECT_MESSAGE(apply(CenterCrop(4, 4), counting(3, 5)),
                 "the picture of 3 x 5 pixels has no middle of 4 x 4");
  // Each place comes up, and what lies outside is 0.
  std::set<float> corners;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Planes planes = apply(RandomCrop(2, 2), counting(3, 3, 1), seed);
    corners.insert(planes.values[0]);
    EXPECT_EQ(planes.values[3], planes.values[0] + 4);
  }
  EXPECT_EQ(corners, (std::set<float>{0, 1, 3, 4}));
  bool outside = false;
  for (uint64_t seed = 0; seed < 50; ++seed)
    outside |= apply(RandomCrop(2, 2, 1), {1, 2, 2, {5, 5, 5, 5}}, seed).values[0] == 0;
  EXPECT_TRUE(outside);
  EXPECT_MESSAGE(apply(RandomCrop(4, 4), counting(3, 3)), "has no part of 4 x 4");
  EXPECT_MESSAGE(RandomCrop(4, 4, -1), "negative");
  // At the caller's line.
  EXPECT_MESSAGE(Resize(0, 4), "they are 0 and 4");
  try {
    Normalize({0.5}, {0.0});
    ADD_FAILURE() << "a deviation of 0";
  } catch (const Error &error) {
    EXPECT_NE(error.file().find("transforms_test.cpp"), std::string::npos) << error.what();
  }
}

TEST(Transforms, FlipsHalf) {
  int flipped = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::vector<float> values = apply(RandomHorizontalFlip(), counting(2, 2, 1), seed).values;
    bool mirrored = values == std::vector<float>{1, 0, 3, 2};
    EXPECT_TRUE(mirrored || values == (std::vector<float>{0, 1, 2, 3}));
    flipped += mirrored;
  }
  EXPECT_GT(flipped, 150);
  EXPECT_LT(flipped, 250);
  EXPECT_EQ(apply(RandomHorizontalFlip(0), counting(1, 2, 1)).values[0], 0);
  EXPECT_EQ(apply(RandomHorizontalFlip(1), counting(1, 2, 1)).values[0], 1);
  EXPECT_MESSAGE(RandomHorizontalFlip(1.5), "[0, 1]");
}

TEST(Transforms, NormalizeByChannel) {
  Planes planes =
      apply(Compose({ToFloat(), Normalize({0.5, 0}, {0.5, 0.1})}), {2, 1, 1, {255, 51}});
  EXPECT_FLOAT_EQ(planes.values[0], 1);
  EXPECT_FLOAT_EQ(planes.values[1], 2);
  EXPECT_FLOAT_EQ(apply(Normalize({1}, {2}), {3, 1, 1, {1, 3, 5}}).values[2], 2);
  EXPECT_MESSAGE(apply(Normalize({1, 2, 3}, {1, 1, 1}), counting(2, 2)),
                 "3 means for a picture of 2 channels");
  EXPECT_MESSAGE(Normalize({1}, {0}), "positive");
  EXPECT_MESSAGE(Normalize({1, 2}, {1}), "2 means and 1 deviations");
}

// The same seed gives the same pictures, whatever the loader's thread does; epochs differ; a
// restored loader goes on with the same ones.
TEST(Transforms, InALoaderAreDeterministic) {
  std::vector<float> pixels(8 * 16);
  std::iota(pixels.begin(), pixels.end(), 0.0f);
  auto tensors =
      std::make_shared<data::TensorDataset>(Tensor::from(pixels, {8, 1, 4, 4}), arange(8));
  auto dataset = std::make_shared<TransformedDataset>(
      tensors, Compose({RandomCrop(3, 3, 1), RandomHorizontalFlip()}));
  auto batches = [&](uint64_t seed, int64_t prefetch, int64_t epoch, int64_t batch) {
    data::DataLoader loader(dataset,
                            {.batch_size = 3, .shuffle = true, .seed = seed, .prefetch = prefetch});
    loader.restore({.seed = seed, .epoch = epoch, .batch = batch});
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 6; ++i)
      all.push_back(loader.next().input.to_vector<float>());
    return all;
  };
  auto whole = batches(5, 2, 0, 0);
  EXPECT_EQ(whole, batches(5, 0, 0, 0));
  EXPECT_NE(whole, batches(6, 2, 0, 0));
  auto later = batches(5, 1, 1, 1);
  EXPECT_EQ(std::vector(whole.begin() + 4, whole.end()),
            std::vector(later.begin(), later.begin() + 2));
  EXPECT_NE(whole[0], whole[3]);
  EXPECT_EQ(dataset->fetch(std::vector<int64_t>{2}).input.shape,
            (std::vector<int64_t>{1, 1, 3, 3}));
}

} // namespace
} // namespace weft::image
