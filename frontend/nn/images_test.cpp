// Modules on images: what they register, what they refuse, and that training and evaluation differ
// where they must. Their values are compared with PyTorch's in tests/golden.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/nn/nn.h"
#include "weft/weft.h"

namespace weft::nn {
namespace {

void expect_near(const Tensor &a, const Tensor &b, double tolerance = 1e-5) {
  ASSERT_EQ(a.shape(), b.shape());
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}

TEST(Conv2d, RegistersWeightAndBias) {
  manual_seed(1);
  Conv2d conv(4, 6, {3, 2}, {.stride = 2, .padding = {1, 0}, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), (Shape{6, 2, 3, 2}));
  EXPECT_EQ(conv.bias.shape(), (Shape{6}));
  EXPECT_EQ(conv(randn({2, 4, 8, 8})).shape(), (Shape{2, 6, 4, 4}));
  double bound = 1 / std::sqrt(12.0), largest = 0;
  for (float value : conv.weight.to_vector<float>())
    largest = std::max<double>(largest, std::abs(value));
  EXPECT_TRUE(largest <= bound + 1e-6 && largest > 0.9 * bound) << largest;
  EXPECT_FALSE(Conv2d(1, 2, 3, {.bias = false}).bias.defined());
}

TEST(Conv2d, TakesValues) {
  manual_seed(1);
  Tensor w = randn({4, 1, 3, 3}), b = randn({4}), x = randn({2, 2, 5, 5});
  Conv2d conv(w, b, {.padding = 1, .groups = 2});
  expect_near(conv(x), conv2d(x, w, b, {.padding = 1, .groups = 2}));
  EXPECT_EQ(conv.named_parameters().size(), 2u);
  EXPECT_EQ(Conv2d(w, Tensor(), {.groups = 2}).named_parameters().size(), 1u);
  EXPECT_MESSAGE(Conv2d(randn({4, 3, 3}), Tensor()), "[out, in / groups, height, width]");
  EXPECT_MESSAGE(Conv2d(w, randn({3})), "they are [4, 1, 3, 3] and [3]");
  EXPECT_MESSAGE(Conv2d(randn({3, 1, 3, 3}), Tensor(), {.groups = 2}), "groups must divide");
}

TEST(Conv2d, NamesWhatIsWrong) {
  Conv2d conv(3, 4, 3);
  EXPECT_MESSAGE(conv(randn({1, 2, 8, 8})),
                 "weight has shape [4, 3, 3, 3]: weight is of 3 channels, x has 2");
  EXPECT_MESSAGE(conv(randn({1, 3, 2, 8})), "does not fit into dimension 2");
  EXPECT_MESSAGE(conv(randn({8, 8})), "[batch, channels, height, width]");
  EXPECT_MESSAGE(conv(ones({1, 3, 8, 8}, int32)), "floating");
  EXPECT_MESSAGE(conv(ones({1, 3, 8, 8}, float64)), "one dtype");
  EXPECT_MESSAGE(Conv2d(3, 4, 0), "at least 1");
  EXPECT_MESSAGE(Conv2d(3, 4, 3, {.groups = 2}), "groups must divide");
  EXPECT_MESSAGE(conv2d(randn({1, 3, 8, 8}), randn({4, 3, 3, 3}), randn({3})),
                 "bias is float32 [3]; it must be float32 [4]");
  EXPECT_MESSAGE(conv2d(randn({1, 3, 8, 8}), randn({4, 3, 3, 3}), Tensor(), {.stride = 0}),
                 "stride is 0");
}

TEST(ConvTranspose2d, IsTheDerivativeOfConv2d) {
  manual_seed(2);
  Tensor x = randn({2, 3, 7, 6}), w = randn({4, 3, 3, 3}), g = randn({2, 4, 4, 3});
  x.requires_grad_();
  weft::Conv2dOptions options{.stride = 2, .padding = 1};
  Tensor by_input = grad({(conv2d(x, w, Tensor(), options) * g).sum()}, {x})[0];
  expect_near(
      conv_transpose2d(g, w, Tensor(), {.stride = 2, .padding = 1, .output_padding = {0, 1}}),
      by_input);
  EXPECT_EQ(ConvTranspose2d(4, 6, 2, {.stride = 2, .groups = 2})(randn({1, 4, 3, 3})).shape(),
            (Shape{1, 6, 6, 6}));
  EXPECT_MESSAGE(conv_transpose2d(g, randn({3, 4, 3, 3})), "dimension 0 of weight must be 4");
  EXPECT_MESSAGE(conv_transpose2d(g, w, Tensor(), {.output_padding = 1}),
                 "output_padding must be less");
  EXPECT_MESSAGE(conv_transpose2d(g, w, Tensor(), {.padding = 5}), "would have size");
}

TEST(Conv2d, HasSecondDerivatives) {
  manual_seed(3);
  Tensor x = randn({1, 2, 4, 4}, float64), w = randn({2, 2, 3, 3}, float64);
  x.requires_grad_();
  w.requires_grad_();
  // The sum of squares of conv(x, w): its Hessian by x, applied to v, is twice the transposed
  // convolution of conv(v, w).
  Tensor v = randn({1, 2, 4, 4}, float64);
  Tensor first = grad({conv2d(x, w).square().sum()}, {x}, {.create_graph = true})[0];
  Tensor second = grad({(first * v).sum()}, {x}, {.retain_graph = true})[0];
  expect_near(second, conv_transpose2d(conv2d(v, w), w) * 2, 1e-9);
}

TEST(BatchNorm2d, TrainsWithTheBatchAndEvaluatesWithWhatItSaw) {
  manual_seed(4);
  BatchNorm2d norm(3);
  EXPECT_EQ(norm.named_buffers().size(), 2u);
  EXPECT_EQ(norm.parameters().size(), 2u);
  Tensor x = randn({8, 3, 5, 5}) * 3.0 + 1.0;
  Tensor y = norm(x);
  expect_near(y.mean({0, 2, 3}), zeros({3}), 1e-5);
  expect_near(y.square().mean({0, 2, 3}), ones({3}), 1e-4);
  expect_near(norm.running_mean, x.mean({0, 2, 3}) * 0.1, 1e-5);
  norm.eval();
  Tensor before = norm.running_mean.clone();
  Tensor scale = rsqrt(norm.running_var + 1e-5);
  expect_near(norm(x), (x - norm.running_mean.reshape({3, 1, 1})) * scale.reshape({3, 1, 1}), 1e-4);
  expect_near(norm.running_mean, before, 0);
  EXPECT_MESSAGE(norm(randn({3, 5, 5})), "[batch, channels, height, width]");
  norm.train();
  EXPECT_MESSAGE(norm(randn({1, 3, 1, 1})), "more than one element");
  EXPECT_MESSAGE(norm(randn({2, 4, 2, 2})), "weight is float32 [3]; it must be float32 [4]");
}

TEST(BatchNorm2d, CountsBatchesWhereFilesHaveTheNumber) {
  BatchNorm2d norm(3, {.count_batches = true});
  ASSERT_EQ(norm.named_buffers().size(), 3u);
  EXPECT_EQ(norm.named_buffers()[2].first, "num_batches_tracked");
  EXPECT_EQ(norm.num_batches_tracked.dtype(), int64);
  EXPECT_EQ(norm.num_batches_tracked.shape(), Shape{});
  for (int i = 0; i < 3; ++i)
    norm(randn({2, 3, 4, 4}));
  norm.eval();
  norm(randn({2, 3, 4, 4}));
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 3);
  EXPECT_EQ(to(norm, float16).num_batches_tracked.dtype(), int64);
  EXPECT_FALSE(BatchNorm2d(3).num_batches_tracked.defined());
  EXPECT_FALSE(BatchNorm2d(3, {.track_running_stats = false, .count_batches = true})
                   .num_batches_tracked.defined());
}

class Steps : public testing::TestWithParam<bool> {};

TEST_P(Steps, OfABatchNormAreOneProgram) {
  manual_seed(5);
  Conv2d conv(1, 4, 3);
  BatchNorm2d norm(4, {.count_batches = GetParam()});
  std::vector<Tensor> parameters = conv.parameters();
  for (const Tensor &parameter : norm.parameters())
    parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.lr = 1e-3});
  Statistics before = statistics();
  for (int i = 0; i < 4; ++i) {
    Tensor x = Tensor::from(std::vector<float>(32, static_cast<float>(i + 1)), {2, 1, 4, 4});
    Tensor loss = norm(conv(x)).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss.item<float>();
  }
  Statistics after = statistics();
  EXPECT_EQ(after.evaluations - before.evaluations, 4u);
  EXPECT_EQ(after.compiles - before.compiles, 1u);
  EXPECT_EQ(after.live_ops, before.live_ops) << "each step leaves something to be computed";
  if (GetParam()) {
    EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 4);
    EXPECT_EQ(statistics().evaluations, after.evaluations) << "the steps counted";
  }
}

INSTANTIATE_TEST_SUITE_P(CountBatches, Steps, testing::Bool());

TEST(GroupNorm, NormalizesGroups) {
  manual_seed(6);
  Tensor x = randn({2, 4, 3, 3}) * 2.0 + 5.0;
  Tensor y = GroupNorm(2, 4)(x).reshape({2, 2, 18});
  expect_near(y.mean({2}), zeros({2, 2}), 1e-5);
  expect_near(y.square().mean({2}), ones({2, 2}), 1e-4);
  EXPECT_MESSAGE(GroupNorm(3, 4), "must divide");
  EXPECT_MESSAGE(group_norm(x, 3), "must divide");
  Tensor z = RMSNorm(3)(x);
  expect_near(z.square().mean({3}), ones({2, 4, 3}), 1e-4);
  EXPECT_MESSAGE(RMSNorm(4)(x), "does not end with");
}

TEST(Pooling, Shapes) {
  Tensor x = arange(2 * 3 * 6 * 8).to(float32).reshape({2, 3, 6, 8});
  EXPECT_EQ(MaxPool2d(2)(x).shape(), (Shape{2, 3, 3, 4}));
  EXPECT_EQ(AvgPool2d({3, 2}, {.stride = Pair(1, 2)})(x).shape(), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(AdaptiveAvgPool2d({4, 3})(x).shape(), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(Upsample({2, 3})(x).shape(), (Shape{2, 3, 12, 24}));
  expect_near(AdaptiveAvgPool2d(1)(x).reshape({2, 3}), x.mean({2, 3}), 1e-4);
  auto [largest, indices] = max_pool2d_with_indices(x, 2);
  EXPECT_EQ(indices.dtype(), int32);
  EXPECT_EQ(indices.to_vector<int32_t>()[0], 9);
  EXPECT_EQ(largest.to_vector<float>()[0], 9);
  EXPECT_MESSAGE(max_pool2d(x, 7), "does not fit");
  EXPECT_MESSAGE(max_pool2d(x, 3, {.stride = {}, .padding = 2}), "more than half");
  EXPECT_EQ(adaptive_avg_pool2d(x, {0, 4}).shape(), (Shape{2, 3, 0, 4}));
  EXPECT_EQ(adaptive_avg_pool1d(x[0], 0).shape(), (Shape{3, 6, 0}));
  EXPECT_MESSAGE(adaptive_avg_pool2d(x, -1), "must not be negative");
  EXPECT_MESSAGE(adaptive_avg_pool2d(zeros({1, 2, 0, 3}), 1), "x must have pixels");
  EXPECT_MESSAGE(Upsample(0), "at least 1");
  EXPECT_MESSAGE(resize(x, 4, {.align_corners = true}), "bilinear");
}

// PyTorch's interpolate().
TEST(Resize, FurtherModes) {
  Tensor x = pow(arange(20).to(float32), 1.5).reshape({1, 1, 4, 5});
  struct {
    Pair size;
    ResizeOptions options;
    std::vector<float> expected;
  } cases[] = {
      {{3, 7},
       {.mode = Resize::kBicubic},
       {1.144369125366211f, 1.8062177896499634f, 3.1724321842193604f, 4.680339336395264f,
        6.354360103607178f, 8.812821388244629f, 10.523053169250488f, 19.627416610717773f,
        22.000682830810547f, 25.75819969177246f, 28.841764450073242f, 32.01051712036133f,
        36.219573974609375f, 39.01314163208008f, 54.195579528808594f, 57.37639236450195f,
        62.366825103759766f, 66.3992919921875f, 70.49940490722656f, 75.86157989501953f,
        79.39045715332031f}},
      {{6, 3},
       {.mode = Resize::kBicubic, .align_corners = true},
       {0, 2.8284270763397217f, 8, 4.634583473205566f, 9.942540168762207f, 16.886611938476562f,
        15.216201782226562f, 23.39873695373535f, 32.56099319458008f, 25.751943588256836f,
        35.150962829589844f, 45.4499397277832f, 44.10170364379883f, 55.12567138671875f,
        66.93372344970703f, 58.094749450683594f, 70.0927963256836f, 82.81907653808594f}},
      {{2, 2},
       {.mode = Resize::kBicubic, .antialias = true},
       {8.929275512695312f, 16.109682083129883f, 47.07835388183594f, 59.91804504394531f}},
      {{2, 2},
       {.mode = Resize::kBilinear, .antialias = true},
       {12.121618270874023f, 18.74297523498535f, 45.243629455566406f, 56.1236572265625f}},
      {{3, 2},
       {.mode = Resize::kBilinear, .align_corners = true, .antialias = true},
       {8.479520797729492f, 13.28183364868164f, 36.16065979003906f, 44.41984176635742f,
        64.15481567382812f, 74.2695541381836f}},
      {{3, 2},
       {.mode = Resize::kArea},
       {8.0376615524292f, 14.028709411621094f, 25.678733825683594f, 34.82870864868164f,
        50.31040573120117f, 61.68400192260742f}},
  };
  for (auto &[size, options, expected] : cases) {
    std::vector<float> made = resize(x, size, options).to_vector<float>();
    ASSERT_EQ(made.size(), expected.size());
    for (size_t i = 0; i < made.size(); ++i)
      EXPECT_NEAR(made[i], expected[i], 2e-5 * (1 + expected[i]))
          << static_cast<int>(options.mode) << " " << i;
  }
  EXPECT_MESSAGE(resize(x, 4, {.antialias = true}), "antialias is for bilinear and bicubic");
}

} // namespace
} // namespace weft::nn
