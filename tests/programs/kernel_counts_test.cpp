// How many kernels and library calls the CPU's programs of norms and pooling are, alone and beside
// the convolution that feeds them; and of layers whose weights are stored in 8 bits.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <functional>

namespace weft {
namespace {

const Shape kImages = {8, 32, 28, 28};

Tensor values(const Shape &shape) {
  Tensor x = rand(shape) + 0.5;
  x.eval();
  return x;
}

// What a layer has and reads.
struct Layer {
  Tensor x = values(kImages), gradient = values(kImages), kernel = values({32, 32, 3, 3});
  Tensor weight = values({32}), bias = values({32}), mean = values({32}), variance = values({32});
  Tensor conv() const {
    return conv2d(x, kernel, Tensor(), {.padding = 1});
  }
  Tensor inference(const Tensor &image) const {
    return batch_norm(image, mean, variance, weight, bias);
  }
  Tensor training(const Tensor &image) const {
    return batch_norm(image, Tensor(), Tensor(), weight, bias, {.training = true});
  }
  Tensor group(const Tensor &image) const {
    return group_norm(image, 8, weight, bias);
  }
  std::vector<Tensor> differentiate(const Tensor &result, const std::vector<Tensor> &by) const {
    return grad({result}, by, {.grad_outputs = {gradient}});
  }
  Layer() {
    for (Tensor *leaf : {&x, &kernel, &weight, &bias})
      leaf->set_requires_grad();
  }
};

// The program of what `record` returns; nothing else that it recorded is alive then.
Evaluation program(const std::function<std::vector<Tensor>()> &record) {
  std::vector<Tensor> results = record();
  eval(results);
  return explain(results.front());
}

std::string notes(const Evaluation &evaluation) {
  std::string text;
  for (const std::string &note : evaluation.notes)
    text += note + "\n";
  return text;
}

// A layer of its own: what others have read does not change is computed ahead, in kernels that
// count.
#define EXPECT_PROGRAM(expected_kernels, expected_calls, ...)                                      \
  do {                                                                                             \
    Layer layer;                                                                                   \
    Evaluation e = program([&]()->std::vector<Tensor> __VA_ARGS__);                                \
    EXPECT_EQ(e.kernels, expected_kernels) << notes(e);                                            \
    EXPECT_EQ(e.library_calls, expected_calls) << notes(e);                                        \
  } while (false)

TEST(KernelCounts, BatchNorm) {
  EXPECT_PROGRAM(1, 0, { return {layer.training(layer.x)}; });
  EXPECT_PROGRAM(1, 0, {
    NoGrad no_grad;
    return {layer.inference(layer.x)};
  });
  EXPECT_PROGRAM(1, 0, {
    Tensor y = batch_norm(layer.x, layer.mean, layer.variance, layer.weight, layer.bias,
                          {.training = true});
    return {y, layer.mean, layer.variance};
  });
  EXPECT_PROGRAM(1, 0, {
    return layer.differentiate(layer.training(layer.x), {layer.x, layer.weight, layer.bias});
  });
  EXPECT_PROGRAM(1, 0, {
    Tensor y = relu(layer.training(layer.x));
    std::vector<Tensor> all = layer.differentiate(y, {layer.x, layer.weight, layer.bias});
    all.push_back(y);
    return all;
  });
}

TEST(KernelCounts, BatchNormBesideItsConvolution) {
  EXPECT_PROGRAM(1, 1, { return {relu(layer.training(layer.conv()))}; });
  // A norm with fixed statistics is part of the weight: two kernels on weights alone. The ReLU is
  // the call's.
  EXPECT_PROGRAM(2, 1, {
    NoGrad no_grad;
    return {relu(layer.inference(layer.conv()))};
  });
  // The convolution and its two gradients.
  EXPECT_PROGRAM(1, 3, {
    return layer.differentiate(relu(layer.training(layer.conv())),
                               {layer.x, layer.kernel, layer.weight, layer.bias});
  });
}

// Rows are the groups of a sample; what weight and bias get are sums over samples, channel by
// channel, of parts of such rows.
TEST(KernelCounts, GroupNorm) {
  EXPECT_PROGRAM(1, 0, { return {layer.group(layer.x)}; });
  EXPECT_PROGRAM(1, 1, { return {relu(layer.group(layer.conv()))}; });
  EXPECT_PROGRAM(1, 0, {
    return layer.differentiate(layer.group(layer.x), {layer.x, layer.weight, layer.bias});
  });
  EXPECT_PROGRAM(1, 0, { return layer.differentiate(layer.group(layer.x), {layer.x}); });
  EXPECT_PROGRAM(1, 0, {
    Tensor y = silu(layer.group(layer.x));
    std::vector<Tensor> all = layer.differentiate(y, {layer.x, layer.weight, layer.bias});
    all.push_back(y);
    return all;
  });
  EXPECT_PROGRAM(1, 3, {
    return layer.differentiate(relu(layer.group(layer.conv())),
                               {layer.x, layer.kernel, layer.weight, layer.bias});
  });
  // One group, and one for each channel.
  for (int64_t groups : {1, 32})
    EXPECT_PROGRAM(1, 0, {
      return layer.differentiate(group_norm(layer.x, groups, layer.weight, layer.bias),
                                 {layer.x, layer.weight, layer.bias});
    });
}

TEST(KernelCounts, PoolingTakesInWhatFeedsIt) {
  NoGrad no_grad;
  // With the two that make the norm part of the weight.
  EXPECT_PROGRAM(3, 1, { return {max_pool2d(relu(layer.inference(layer.conv())), 2)}; });
  EXPECT_PROGRAM(3, 1, { return {avg_pool2d(relu(layer.inference(layer.conv())), 2)}; });
  EXPECT_PROGRAM(3, 1, {
    return {max_pool2d(relu(layer.inference(layer.conv())), 3, {.stride = 2, .padding = 1})};
  });
  EXPECT_PROGRAM(1, 1,
                 { return {max_pool2d(relu(layer.conv()), 3, {.stride = 2, .padding = 1})}; });
  EXPECT_PROGRAM(3, 1, { return {adaptive_avg_pool2d(relu(layer.inference(layer.conv())), 1)}; });
}

// What feeds it may be a batch_norm in training: each channel is normalised where its windows are
// read.
TEST(KernelCounts, PoolingTakesInNormsInTraining) {
  MaxPool2dOptions overlapping{.stride = 2, .padding = 1};
  EXPECT_PROGRAM(1, 1,
                 { return {max_pool2d(relu(layer.training(layer.conv())), 3, overlapping)}; });
  EXPECT_PROGRAM(1, 1, { return {max_pool2d(relu(layer.training(layer.conv())), 2)}; });
  // Not group_norm: its rows are a reshape of the image, in which windows are not followed.
  EXPECT_PROGRAM(2, 1, { return {max_pool2d(relu(layer.group(layer.conv())), 3, overlapping)}; });
  // With the running statistics that the step leaves.
  EXPECT_PROGRAM(1, 1, {
    Tensor y = batch_norm(layer.conv(), layer.mean, layer.variance, layer.weight, layer.bias,
                          {.training = true});
    return {max_pool2d(relu(y), 3, overlapping), layer.mean, layer.variance};
  });
}

// Wide ops compile, and compute the same.
TEST(KernelCounts, StacksOfManyRows) {
  std::vector<float> numbers(300 * 10);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  Tensor x = Tensor::from(numbers, {300, 10});
  x.set_requires_grad();
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < 300; ++i)
    rows.push_back(x.slice(0, 299 - i, 300 - i).reshape({10}) * 2.0);
  Tensor y = stack(rows);
  rows.clear();
  (y * y).sum().backward();
  EXPECT_EQ(y.slice(0, 7, 8).to_vector<float>()[3], 2 * (292 * 10 + 3.0f));
  EXPECT_EQ(x.grad().slice(0, 292, 293).to_vector<float>()[3], 8 * (292 * 10 + 3.0f));
}

// Two layers of four rows whose weights are int8 with a scale for each output. Products read the
// weights as they lie, whatever runs know of them: no library call reads a float32 copy.
TEST(KernelCounts, WeightsOf8Bits) {
  NoGrad no_grad;
  struct Quantized {
    Tensor weight, scale, bias;
    explicit Quantized(const Tensor &original) : bias(values({original.size(0)})) {
      scale = original.abs().amax(1, true) / 127.0;
      weight = (original / scale).round().to(int8);
      eval({weight, scale});
    }
    Tensor dequantized() const {
      return weight.to(float32) * scale;
    }
  };
  Tensor x = randn({4, 256}), w1 = randn({320, 256}) / 16.0, w2 = randn({64, 320}) / 16.0;
  eval({x, w1, w2});
  Quantized first(w1), second(w2);
  auto layers = [&](const Tensor &a, const Tensor &b) {
    return linear(relu(linear(x, a, first.bias)), b, second.bias);
  };
  Tensor a = first.dequantized(), b = second.dequantized();
  Tensor exact = layers(a.eval(), b.eval()).eval(), original = layers(w1, w2).eval();
  // Rounding to 8 bits loses up to half a 127th of a row's largest weight.
  EXPECT_LT((exact - original).abs().max().item<float>(), 0.25);
  for (int run = 0; run < 4; ++run) {
    Tensor y = layers(first.dequantized(), second.dequantized());
    y.eval();
    Evaluation e = explain(y);
    EXPECT_EQ(e.kernels, 4) << notes(e);
    EXPECT_EQ(e.library_calls, 0) << notes(e);
    EXPECT_LT((y - exact).abs().max().item<float>(), 1e-4);
  }
}

} // namespace
} // namespace weft
