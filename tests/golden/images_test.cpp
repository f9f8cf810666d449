// Convolutions, pooling, normalization and resizing of images and their derivatives against
// PyTorch's.
#include <functional>

#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"

namespace weft::golden {
namespace {

using Inputs = std::vector<Tensor>;

const GoldenFile &file() {
  static const GoldenFile file("images.safetensors");
  return file;
}

const std::map<std::string, std::function<Tensor(const Inputs &)>> kFunctions = {
    {"conv2d_plain", [](auto &in) { return conv2d(in[0], in[1], in[2]); }},
    {"conv2d_all",
     [](auto &in) {
       return conv2d(in[0], in[1], Tensor(),
                     {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 3});
     }},
    {"conv2d_large", [](auto &in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); }},
    {"conv_transpose2d_plain", [](auto &in) { return conv_transpose2d(in[0], in[1], in[2]); }},
    {"conv_transpose2d_all",
     [](auto &in) {
       return conv_transpose2d(
           in[0], in[1], in[2],
           {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .groups = 2});
     }},
    {"conv_transpose2d_dilated",
     [](auto &in) {
       return conv_transpose2d(in[0], in[1], Tensor(), {.padding = 1, .dilation = 2});
     }},
    {"max_pool2d_plain", [](auto &in) { return max_pool2d(in[0], 2); }},
    {"max_pool2d_padded",
     [](auto &in) { return max_pool2d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true}); }},
    {"max_pool2d_dilated",
     [](auto &in) {
       return max_pool2d(in[0], {2, 3}, {.stride = Pair(1, 2), .padding = 1, .dilation = {2, 1}});
     }},
    {"max_pool2d_ties", [](auto &in) { return max_pool2d(in[0], 3, {.stride = 1, .padding = 1}); }},
    {"max_pool2d_nan", [](auto &in) { return max_pool2d(in[0], 3, {.stride = 1, .padding = 1}); }},
    {"avg_pool2d_plain", [](auto &in) { return avg_pool2d(in[0], 2); }},
    {"avg_pool2d_padded",
     [](auto &in) { return avg_pool2d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true}); }},
    {"avg_pool2d_inside",
     [](auto &in) {
       return avg_pool2d(in[0], {3, 2},
                         {.stride = Pair(2, 1), .padding = 1, .count_include_pad = false});
     }},
    {"adaptive_avg_pool2d_3x2", [](auto &in) { return adaptive_avg_pool2d(in[0], {3, 2}); }},
    {"adaptive_avg_pool2d_1", [](auto &in) { return adaptive_avg_pool2d(in[0], 1); }},
    {"batch_norm_training",
     [](auto &in) {
       return batch_norm(in[0], Tensor(), Tensor(), in[1], in[2], {.training = true});
     }},
    {"batch_norm_evaluation",
     [](auto &in) {
       return batch_norm(in[0], file()["running.mean"], file()["running.variance"], in[1], in[2]);
     }},
    {"group_norm_affine", [](auto &in) { return group_norm(in[0], 3, in[1], in[2]); }},
    {"group_norm_plain", [](auto &in) { return group_norm(in[0], 2); }},
    {"rms_norm", [](auto &in) { return rms_norm(in[0], {6}, in[1]); }},
    {"resize_nearest_up", [](auto &in) { return resize(in[0], {7, 9}); }},
    {"resize_nearest_down", [](auto &in) { return resize(in[0], {2, 3}); }},
    {"resize_bilinear_up",
     [](auto &in) { return resize(in[0], {7, 9}, {.mode = Resize::kBilinear}); }},
    {"resize_bilinear_down",
     [](auto &in) { return resize(in[0], {2, 3}, {.mode = Resize::kBilinear}); }},
    {"resize_corners_up",
     [](auto &in) {
       return resize(in[0], {7, 9}, {.mode = Resize::kBilinear, .align_corners = true});
     }},
    {"resize_corners_down",
     [](auto &in) {
       return resize(in[0], {2, 3}, {.mode = Resize::kBilinear, .align_corners = true});
     }},
};

class ImagesTest : public testing::TestWithParam<std::string> {};

TEST_P(ImagesTest, ValuesAndDerivativesArePyTorchs) {
  const std::string &name = GetParam();
  auto function = kFunctions.find(name);
  ASSERT_NE(function, kFunctions.end()) << "nothing computes the case " << name;
  Inputs inputs;
  std::vector<std::string> keys;
  Tensor expected, weight;
  for (auto &[key, tensor] : file().under(name)) {
    if (key == "out")
      expected = tensor;
    else if (key == "weight")
      weight = tensor;
    else if (!key.starts_with("grad.")) {
      inputs.push_back(tensor.clone());
      inputs.back().requires_grad_();
      keys.push_back(key);
    }
  }
  Tensor result = function->second(inputs);
  // Some dozens of products of f32 each.
  EXPECT_LT(relative_distance(result, expected), 2e-6) << "\n"
                                                       << result << "\nexpected\n"
                                                       << expected;
  std::vector<Tensor> gradients = grad({(result * weight).sum()}, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor &golden = file()[name + ".grad." + keys[i]];
    EXPECT_LT(relative_distance(gradients[i], golden), 1e-5) << "by " << keys[i] << "\n"
                                                             << gradients[i] << "\nexpected\n"
                                                             << golden;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> names = file().cases();
  std::erase(names, "running");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Cases, ImagesTest, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

TEST(BatchNorm, MovesItsRunningStatisticsAsPyTorchDoes) {
  Tensor mean = file()["running.mean"].clone(), variance = file()["running.variance"].clone();
  batch_norm(file()["running.x"], mean, variance, Tensor(), Tensor(),
             {.training = true, .momentum = 0.3});
  EXPECT_LT(relative_distance(mean, file()["running.mean_after"]), 1e-6) << mean;
  EXPECT_LT(relative_distance(variance, file()["running.variance_after"]), 1e-6) << variance;
}

} // namespace
} // namespace weft::golden
