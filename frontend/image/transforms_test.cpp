#include "tests/support/errors.h"
#include "weft/image/transforms.h"

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
