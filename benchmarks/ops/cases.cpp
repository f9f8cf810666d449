#include "benchmarks/ops/cases.h"

#include <array>
#include <map>
#include <stdexcept>

#include "weft/data/random.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

using Tensors = std::vector<Tensor>;
using Values = std::vector<float>;

// Numbers in [-1, 1), without an op of ours.
Tensor floats(const Shape &shape) {
  data::SplitMix64 random(1);
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  std::vector<float> values(n);
  for (float &value : values)
    value = static_cast<float>(random.below(1 << 24)) * 0x1p-23f - 1.0f;
  return Tensor::from(values, shape);
}

Tensor indices(const Shape &shape, int64_t below) {
  data::SplitMix64 random(2);
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  std::vector<int64_t> values(n);
  for (int64_t &value : values)
    value = static_cast<int64_t>(random.below(static_cast<uint64_t>(below)));
  return Tensor::from(values, shape);
}

int64_t bytes_of(const Tensors &tensors) {
  int64_t bytes = 0;
  for (const Tensor &tensor : tensors)
    bytes += tensor.nbytes();
  return bytes;
}

OpCase forward(Tensors inputs, std::function<Tensors(const Tensors &)> function) {
  for (const Tensor &input : inputs)
    input.eval();
  OpCase made{inputs, [inputs, function] { return function(inputs); }, 0};
  made.bytes = bytes_of(inputs) + bytes_of(made.run());
  return made;
}

// The derivative by the first `differentiated` inputs, with the last input as the results' weight;
// the results themselves are not asked for.
OpCase backward(Tensors inputs, size_t differentiated,
                std::function<Tensor(const Tensors &)> function) {
  return forward(std::move(inputs), [=](const Tensors &given) {
    Tensors leaves(given.begin(), given.end());
    for (size_t i = 0; i < differentiated; ++i)
      leaves[i] = leaves[i].detach().set_requires_grad();
    GradOptions options;
    options.grad_outputs = {given.back()};
    return grad({function(leaves)},
                {leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(differentiated)},
                options);
  });
}

using Maker = std::function<OpCase()>;
struct Row {
  std::string name, group;
  Maker make;
  LibraryProblem problem = {};
};

// A function of one tensor, and its derivative.
Row unary_row(const std::string &name, const std::string &group, const Shape &shape,
              std::function<Tensor(const Tensor &)> function) {
  return {name, group, [=] {
            return forward({floats(shape)},
                           [=](const Tensors &x) { return Tensors{function(x[0])}; });
          }};
}
// `result`: the shape of the function's value.
Row unary_backward_row(const std::string &name, const std::string &group, const Shape &shape,
                       const Shape &result, std::function<Tensor(const Tensor &)> function) {
  return {name, group, [=] {
            return backward({floats(shape), floats(result)}, 1,
                            [=](const Tensors &x) { return function(x[0]); });
          }};
}

// x [m, k] times weight [n, k], as nn::Linear has it.
Row linear_row(const std::string &name, int64_t m, int64_t k, int64_t n,
               bool differentiate = false) {
  auto make = [=] {
    if (differentiate)
      return backward({floats({m, k}), floats({n, k}), floats({m, n})}, 2,
                      [](const Tensors &x) { return linear(x[0], x[1]); });
    return forward({floats({m, k}), floats({n, k}), floats({n})},
                   [](const Tensors &x) { return Tensors{linear(x[0], x[1], x[2])}; });
  };
  return {name, "matmul", make,
          MatmulProblem{1, m, k, n, /*transposed=*/true, /*is_weight=*/true,
                        /*bias=*/!differentiate, differentiate}};
}

// Products of few rows, which take the time that their weights take to be read: x [m, k] times a
// weight stored as [n, k] (with a bias, as nn::Linear has it) or as [k, n]. With few columns
// instead, x is what is long.
Row skinny_row(int64_t m, int64_t k, int64_t n, bool transposed) {
  auto make = [=] {
    OpCase made = transposed
                      ? forward({floats({m, k}), floats({n, k}), floats({n})},
                                [](const Tensors &x) { return Tensors{linear(x[0], x[1], x[2])}; })
                      : forward({floats({m, k}), floats({k, n})},
                                [](const Tensors &x) { return Tensors{matmul(x[0], x[1])}; });
    made.reads = true;
    return made;
  };
  std::string sizes = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  return {(transposed ? "skinny_linear_" : "skinny_product_") + sizes, "skinny", make,
          MatmulProblem{1, m, k, n, transposed, /*is_weight=*/true, /*bias=*/transposed}};
}

// The same with a weight [n, k] in int8 and a scale for each of its rows, beside what others
// multiply with in float32.
Row narrow_row(int64_t m, int64_t k, int64_t n) {
  auto make = [=] {
    Tensor weight = (floats({n, k}) * 127.0).to(int8);
    OpCase made = forward({floats({m, k}), weight, floats({n, 1})}, [](const Tensors &x) {
      return Tensors{matmul(x[0], (x[1].to(float32) * x[2]).transpose(0, 1))};
    });
    made.reads = true;
    return made;
  };
  return {"skinny_int8_" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n),
          "skinny", make};
}

constexpr std::array<int64_t, 3> kNarrow[] = {
    {1, 4096, 4096}, {4, 4096, 4096}, {8, 4096, 4096}, {16, 4096, 4096}};

constexpr std::array<int64_t, 3> kSkinny[] = {
    {1, 8192, 8192}, {1, 4096, 4096}, {1, 1024, 1024}, {1, 512, 16384}, {1, 16384, 512},
    {1, 4097, 4095}, {2, 4096, 4096}, {4, 4096, 4096}, {8, 4096, 4096}, {3, 4095, 4097},
    {8, 512, 16384}, {8, 16384, 512}, {4096, 4096, 1}, {4096, 4096, 2}, {4096, 4096, 4},
    {4096, 4096, 8}, {16384, 512, 4}, {4095, 4097, 3}};

// Layers of one width without anything between but a ReLU: inference of one row.
Row mlp_row(int64_t layers, int64_t width) {
  auto make = [=] {
    Tensors inputs = {floats({1, width})};
    for (int64_t i = 0; i < layers; ++i) {
      inputs.push_back(floats({width, width}));
      inputs.push_back(floats({width}));
    }
    OpCase made = forward(inputs, [](const Tensors &given) {
      Tensor x = given[0];
      for (size_t i = 1; i < given.size(); i += 2)
        x = relu(linear(x, given[i], given[i + 1]));
      return Tensors{x};
    });
    made.reads = true;
    return made;
  };
  return {"mlp_" + std::to_string(layers) + "x" + std::to_string(width), "skinny", make};
}

// The weights' part of the step that makes one token: norm, queries, keys and values, projection,
// norm, MLP, with residuals; what attention itself reads is left out.
Row decode_row(int64_t layers, int64_t width) {
  auto make = [=] {
    Tensors inputs = {floats({1, width})};
    for (int64_t i = 0; i < layers; ++i)
      for (auto [rows, columns] :
           {std::pair{3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}}) {
        inputs.push_back(floats({rows, columns}));
        inputs.push_back(floats({rows}));
      }
    OpCase made = forward(inputs, [=](const Tensors &given) {
      Tensor x = given[0];
      auto norm = [&] {
        return layer_norm(x, {width});
      };
      for (size_t i = 1; i < given.size(); i += 8) {
        auto apply = [&](size_t number, const Tensor &to) {
          return linear(to, given[i + 2 * number], given[i + 2 * number + 1]);
        };
        x = x + apply(1, apply(0, norm()).slice(1, 2 * width, 3 * width));
        x = x + apply(3, gelu(apply(2, norm())));
      }
      return Tensors{x};
    });
    made.reads = true;
    return made;
  };
  return {"decode_" + std::to_string(layers) + "x" + std::to_string(width), "skinny", make};
}

// x [m, k] or [batch, m, k] times y [.., k, n] of float64, either stored transposed.
Row product64_row(const std::string &name, Shape x, Shape y, bool transpose_x = false,
                  bool transpose_y = false) {
  auto make = [=] {
    return forward({floats(x).to(float64), floats(y).to(float64)}, [=](const Tensors &given) {
      return Tensors{matmul(transpose_x ? given[0].transpose(-2, -1) : given[0],
                            transpose_y ? given[1].transpose(-2, -1) : given[1])};
    });
  };
  return {name, "float64", make};
}

// Products of attention, [batch, m, k] times [batch, k, n]; the second one stored as [batch, n, k]
// if transposed.
Row products_row(const std::string &name, int64_t batch, int64_t m, int64_t k, int64_t n,
                 bool transposed, bool differentiate = false) {
  auto multiply = [=](const Tensors &x) {
    return matmul(x[0], transposed ? x[1].transpose(1, 2) : x[1]);
  };
  auto make = [=] {
    Tensors inputs = {floats({batch, m, k}),
                      transposed ? floats({batch, n, k}) : floats({batch, k, n})};
    if (!differentiate)
      return forward(inputs, [=](const Tensors &x) { return Tensors{multiply(x)}; });
    inputs.push_back(floats({batch, m, n}));
    return backward(inputs, 2, multiply);
  };
  return {name, "matmul", make,
          MatmulProblem{batch, m, k, n, transposed, /*is_weight=*/false, /*bias=*/false,
                        differentiate}};
}

// Attention over [batch, heads, length, features]; the derivative is by all three.
Row attention_row(const std::string &name, Shape shape, bool causal, bool differentiate = false) {
  auto attend = [=](const Tensors &x) {
    return attention(x[0], x[1], x[2], Tensor(), {.causal = causal, .scale = {}});
  };
  auto make = [=] {
    Tensors inputs(differentiate ? 4 : 3);
    for (Tensor &input : inputs)
      input = floats(shape);
    if (differentiate)
      return backward(inputs, 3, attend);
    return forward(inputs, [=](const Tensors &x) { return Tensors{attend(x)}; });
  };
  return {name, "attention", make};
}

// Without bias, as in front of a batch_norm.
Row convolution_row(const std::string &name, ConvolutionProblem p, bool differentiate = false) {
  p.backward = differentiate;
  auto convolve = [=](const Tensors &x) {
    return conv2d(x[0], x[1], Tensor(),
                  {.stride = p.stride, .padding = p.padding, .groups = p.groups});
  };
  auto make = [=] {
    Tensors inputs = {floats({p.batch, p.channels, p.image, p.image}),
                      floats({p.outputs, p.channels / p.groups, p.kernel, p.kernel})};
    if (!differentiate)
      return forward(inputs, [=](const Tensors &x) { return Tensors{convolve(x)}; });
    inputs.push_back(floats({p.batch, p.outputs, p.result(), p.result()}));
    return backward(inputs, 2, convolve);
  };
  return {name, "convolution", make, p};
}

// Training: with the statistics of the batch, which move the running ones.
Row batch_norm_row(const std::string &name, const Shape &shape, bool training) {
  Shape channels = {shape[1]};
  auto make = [=] {
    return forward({floats(shape), floats(channels), floats(channels), floats(channels),
                    Tensor::from(Values(shape[1], 1.0f), channels)},
                   [=](const Tensors &x) {
                     Tensor y = batch_norm(x[0], x[3], x[4], x[1], x[2], {.training = training});
                     return training ? Tensors{y, x[3], x[4]} : Tensors{y};
                   });
  };
  return {name, "norm", make};
}
Row batch_norm_backward_row(const std::string &name, const Shape &shape) {
  Shape channels = {shape[1]};
  auto make = [=] {
    return backward({floats(shape), floats(channels), floats(channels), floats(shape)}, 3,
                    [](const Tensors &x) {
                      return batch_norm(x[0], Tensor(), Tensor(), x[1], x[2], {.training = true});
                    });
  };
  return {name, "norm", make};
}

const std::vector<Row> &table() {
  static const std::vector<Row> cases = [] {
    std::vector<Row> made = {
      {"chain_tanh_sigmoid_16M", "elementwise",
       [] {
         return forward({floats({1 << 24}), floats({1 << 24})},
                        [](const Tensors &x) { return Tensors{tanh(x[0] * x[1] + 1.0) * sigmoid(x[0] - x[1]) + x[1]}; });
       }},
      {"chain_add_mul_relu_4M", "elementwise",
       [] {
         return forward({floats({2048, 2048}), floats({2048, 2048}), floats({2048})},
                        [](const Tensors &x) { return Tensors{relu(x[0] * x[1] + x[2])}; });
       }},
      {"chain_tanh_sigmoid_backward_4M", "elementwise",
       [] {
         return backward({floats({1 << 22}), floats({1 << 22}), floats({1 << 22})}, 2,
                         [](const Tensors &x) { return tanh(x[0] * x[1] + 1.0) * sigmoid(x[0] - x[1]) + x[1]; });
       }},
      {"chain_add_mul_relu_backward_4M", "elementwise",
       [] {
         return backward({floats({2048, 2048}), floats({2048, 2048}), floats({2048}), floats({2048, 2048})}, 3,
                         [](const Tensors &x) { return relu(x[0] * x[1] + x[2]); });
       }},
      unary_row("chain_sin_exp_tanh_4M", "elementwise", {1 << 22}, [](const Tensor &x) { return tanh(exp(sin(x))); }),
      unary_backward_row("chain_sin_exp_tanh_backward_4M", "elementwise", {1 << 22}, {1 << 22},
                         [](const Tensor &x) { return tanh(exp(sin(x))); }),
      unary_row("silu_2048x2048", "elementwise", {2048, 2048}, [](const Tensor &x) { return silu(x); }),
      unary_backward_row("silu_backward_2048x2048", "elementwise", {2048, 2048}, {2048, 2048}, [](const Tensor &x) { return silu(x); }),
      unary_row("gelu_2048x512", "elementwise", {2048, 512}, [](const Tensor &x) { return gelu(x); }),
      unary_backward_row("gelu_backward_2048x512", "elementwise", {2048, 512}, {2048, 512}, [](const Tensor &x) { return gelu(x); }),
      unary_row("softmax_1024x1024", "norm", {1024, 1024}, [](const Tensor &x) { return softmax(x, -1); }),
      unary_row("softmax_8192x128", "norm", {8192, 128}, [](const Tensor &x) { return softmax(x, -1); }),
      unary_row("softmax_dim0_1024x1024", "norm", {1024, 1024}, [](const Tensor &x) { return softmax(x, 0); }),
      unary_backward_row("softmax_backward_1024x1024", "norm", {1024, 1024}, {1024, 1024}, [](const Tensor &x) { return softmax(x, -1); }),
      unary_row("log_softmax_1024x1024", "norm", {1024, 1024}, [](const Tensor &x) { return log_softmax(x, -1); }),
      unary_backward_row("log_softmax_backward_1024x1024", "norm", {1024, 1024}, {1024, 1024}, [](const Tensor &x) { return log_softmax(x, -1); }),
      {"layer_norm_1024x1024", "norm",
       [] {
         return forward({floats({1024, 1024}), floats({1024}), floats({1024})},
                        [](const Tensors &x) { return Tensors{layer_norm(x[0], {1024}, x[1], x[2])}; });
       }},
      {"layer_norm_2048x128", "norm",
       [] {
         return forward({floats({2048, 128}), floats({128}), floats({128})},
                        [](const Tensors &x) { return Tensors{layer_norm(x[0], {128}, x[1], x[2])}; });
       }},
      {"layer_norm_backward_1024x1024", "norm",
       [] {
         return backward({floats({1024, 1024}), floats({1024}), floats({1024}), floats({1024, 1024})}, 3,
                         [](const Tensors &x) { return layer_norm(x[0], {1024}, x[1], x[2]); });
       }},
      {"layer_norm_backward_2048x128", "norm",
       [] {
         return backward({floats({2048, 128}), floats({128}), floats({128}), floats({2048, 128})}, 3,
                         [](const Tensors &x) { return layer_norm(x[0], {128}, x[1], x[2]); });
       }},
      {"rms_norm_1024x1024", "norm",
       [] {
         return forward({floats({1024, 1024}), floats({1024})}, [](const Tensors &x) { return Tensors{rms_norm(x[0], {1024}, x[1])}; });
       }},
      {"rms_norm_2048x128", "norm",
       [] {
         return forward({floats({2048, 128}), floats({128})}, [](const Tensors &x) { return Tensors{rms_norm(x[0], {128}, x[1])}; });
       }},
      {"rms_norm_backward_1024x1024", "norm",
       [] {
         return backward({floats({1024, 1024}), floats({1024}), floats({1024, 1024})}, 2,
                         [](const Tensors &x) { return rms_norm(x[0], {1024}, x[1]); });
       }},
      // The first and the last stage of a ResNet-50.
      batch_norm_row("batch_norm_training_16x64x56x56", {16, 64, 56, 56}, true),
      batch_norm_row("batch_norm_training_16x512x7x7", {16, 512, 7, 7}, true),
      batch_norm_row("batch_norm_inference_16x64x56x56", {16, 64, 56, 56}, false),
      batch_norm_backward_row("batch_norm_backward_16x64x56x56", {16, 64, 56, 56}),
      batch_norm_backward_row("batch_norm_backward_16x512x7x7", {16, 512, 7, 7}),
      {"group_norm_16x64x56x56", "norm",
       [] {
         return forward({floats({16, 64, 56, 56}), floats({64}), floats({64})},
                        [](const Tensors &x) { return Tensors{group_norm(x[0], 32, x[1], x[2])}; });
       }},
      {"group_norm_backward_16x64x56x56", "norm",
       [] {
         return backward({floats({16, 64, 56, 56}), floats({64}), floats({64}), floats({16, 64, 56, 56})}, 3,
                         [](const Tensors &x) { return group_norm(x[0], 32, x[1], x[2]); });
       }},
      unary_row("sum_all_1024x1024", "reduction", {1024, 1024}, [](const Tensor &x) { return sum(x); }),
      unary_row("sum_dim0_1024x1024", "reduction", {1024, 1024}, [](const Tensor &x) { return sum(x, 0); }),
      unary_row("sum_dim1_1024x1024", "reduction", {1024, 1024}, [](const Tensor &x) { return sum(x, 1); }),
      unary_row("max_dim1_1024x1024", "reduction", {1024, 1024}, [](const Tensor &x) { return max(x, 1); }),
      unary_row("sum_dim0_64x128x256", "reduction", {64, 128, 256}, [](const Tensor &x) { return sum(x, 0); }),
      unary_row("sum_dim1_64x128x256", "reduction", {64, 128, 256}, [](const Tensor &x) { return sum(x, 1); }),
      unary_row("sum_dim2_64x128x256", "reduction", {64, 128, 256}, [](const Tensor &x) { return sum(x, 2); }),
      unary_row("mean_dims02_64x128x256", "reduction", {64, 128, 256}, [](const Tensor &x) { return mean(x, {0, 2}); }),
      unary_row("max_pool3_s2_16x64x112x112", "reduction", {16, 64, 112, 112},
                [](const Tensor &x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); }),
      unary_backward_row("max_pool3_s2_backward_16x64x112x112", "reduction", {16, 64, 112, 112}, {16, 64, 56, 56},
                         [](const Tensor &x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); }),
      unary_row("avg_pool2_16x64x56x56", "reduction", {16, 64, 56, 56}, [](const Tensor &x) { return avg_pool2d(x, 2); }),
      unary_backward_row("avg_pool2_backward_16x64x56x56", "reduction", {16, 64, 56, 56}, {16, 64, 28, 28},
                         [](const Tensor &x) { return avg_pool2d(x, 2); }),
      unary_row("avg_pool_global_16x2048x7x7", "reduction", {16, 2048, 7, 7}, [](const Tensor &x) { return adaptive_avg_pool2d(x, 1); }),
      unary_backward_row("avg_pool_global_backward_16x2048x7x7", "reduction", {16, 2048, 7, 7}, {16, 2048, 1, 1},
                         [](const Tensor &x) { return adaptive_avg_pool2d(x, 1); }),
      unary_row("max_pool2_16x64x56x56", "reduction", {16, 64, 56, 56}, [](const Tensor &x) { return max_pool2d(x, 2); }),
      unary_row("avg_pool3_s2_16x64x57x57", "reduction", {16, 64, 57, 57}, [](const Tensor &x) { return avg_pool2d(x, 3, {.stride = 2}); }),
      unary_row("mean_dims23_16x256x14x14", "reduction", {16, 256, 14, 14}, [](const Tensor &x) { return mean(x, {2, 3}); }),
      // Scores of 10 or 50 classes.
      unary_row("mean_dim1_65536x8", "reduction", {65536, 8}, [](const Tensor &x) { return mean(x, 1); }),
      unary_row("max_dim1_65536x10", "reduction", {65536, 10}, [](const Tensor &x) { return max(x, 1); }),
      unary_row("argmax_dim1_65536x10", "reduction", {65536, 10}, [](const Tensor &x) { return argmax(x, 1); }),
      unary_row("argmax_dim1_2048x1000", "reduction", {2048, 1000}, [](const Tensor &x) { return argmax(x, 1); }),
      unary_row("logsumexp_16384x50", "reduction", {16384, 50}, [](const Tensor &x) { return logsumexp(x, 1); }),
      unary_row("softmax_65536x10", "norm", {65536, 10}, [](const Tensor &x) { return softmax(x, -1); }),
      unary_row("softmax_16384x50", "norm", {16384, 50}, [](const Tensor &x) { return softmax(x, -1); }),
      unary_row("softmax_dim1_64x128x256", "norm", {64, 128, 256}, [](const Tensor &x) { return softmax(x, 1); }),
      // Each dim of one tensor, and the classes of images' pixels.
      unary_row("softmax_dim0_64x128x512", "norm", {64, 128, 512}, [](const Tensor &x) { return softmax(x, 0); }),
      unary_row("softmax_dim1_64x128x512", "norm", {64, 128, 512}, [](const Tensor &x) { return softmax(x, 1); }),
      unary_row("softmax_dim2_64x128x512", "norm", {64, 128, 512}, [](const Tensor &x) { return softmax(x, 2); }),
      unary_row("log_softmax_dim1_8x21x128x128", "norm", {8, 21, 128, 128}, [](const Tensor &x) { return log_softmax(x, 1); }),
      unary_backward_row("log_softmax_dim1_backward_8x21x128x128", "norm", {8, 21, 128, 128}, {8, 21, 128, 128}, [](const Tensor &x) { return log_softmax(x, 1); }),
      unary_row("cumsum_dim0_64x128x512", "movement", {64, 128, 512}, [](const Tensor &x) { return cumsum(x, 0); }),
      unary_row("cumsum_dim0_1024x1024", "movement", {1024, 1024}, [](const Tensor &x) { return cumsum(x, 0); }),
      unary_row("cumsum_dim1_1024x1024", "movement", {1024, 1024}, [](const Tensor &x) { return cumsum(x, 1); }),
      unary_row("slice_1022x1022_of_1024x1024", "movement", {1024, 1024},
                [](const Tensor &x) { return x.slice(0, 1, 1023).slice(1, 1, 1023).clone(); }),
      unary_row("every_second_of_1024x2048", "movement", {1024, 2048}, [](const Tensor &x) { return x.slice(1, 0, 2048, 2).clone(); }),
      unary_row("pad_1024x1022", "movement", {1024, 1022}, [](const Tensor &x) { return pad(x, {1, 1}); }),
      unary_row("flip_1024x1024", "movement", {1024, 1024}, [](const Tensor &x) { return flip(x, {1}); }),
      {"histogram_1M_of_256", "movement",
       [] {
         return forward({indices({1 << 20}, 256)}, [](const Tensors &x) {
           return Tensors{scatter_add(zeros({256}), 0, x[0], ones({1 << 20}))};
         });
       }},
      unary_row("transpose_1024x1024", "movement", {1024, 1024}, [](const Tensor &x) { return x.transpose(0, 1).clone(); }),
      unary_row("transpose_1000x1000", "movement", {1000, 1000}, [](const Tensor &x) { return x.transpose(0, 1).clone(); }),
      {"transpose_add_1024x1024", "movement",
       [] {
         return forward({floats({1024, 1024}), floats({1024, 1024})},
                        [](const Tensors &x) { return Tensors{x[0].transpose(0, 1) + x[1]}; });
       }},
      unary_row("split_heads_16x128x4x32", "movement", {16, 128, 4, 32}, [](const Tensor &x) { return x.transpose(1, 2).clone(); }),
      {"embedding_2048_of_8192x128", "movement",
       [] {
         return forward({indices({16, 128}, 8192), floats({8192, 128})}, [](const Tensors &x) { return Tensors{embedding(x[0], x[1])}; });
       }},
      {"embedding_backward_2048_of_8192x128", "movement",
       [] {
         return forward({indices({16, 128}, 8192), floats({8192, 128}), floats({16, 128, 128})}, [](const Tensors &x) {
           Tensor weight = x[1].detach().set_requires_grad();
           GradOptions options;
           options.grad_outputs = {x[2]};
           return grad({embedding(x[0], weight)}, {weight}, options);
         });
       }},
      {"gather_dim1_1024x1024", "movement",
       [] {
         return forward({floats({1024, 1024}), indices({1024, 1024}, 1024)},
                        [](const Tensors &x) { return Tensors{gather(x[0], 1, x[1])}; });
       }},
      {"scatter_add_dim0_1024x256", "movement",
       [] {
         return forward({floats({512, 256}), indices({1024, 256}, 512), floats({1024, 256})},
                        [](const Tensors &x) { return Tensors{scatter_add(x[0], 0, x[1], x[2])}; });
       }},
      {"scatter_add_dim1_1024x256", "movement",
       [] {
         return forward({floats({1024, 128}), indices({1024, 256}, 128), floats({1024, 256})},
                        [](const Tensors &x) { return Tensors{scatter_add(x[0], 1, x[1], x[2])}; });
       }},
      {"sort_1M", "order",
       [] {
         return forward({floats({1 << 20})}, [](const Tensors &x) {
           auto [values, indices] = sort(x[0]);
           return Tensors{values, indices};
         });
       }},
      {"sort_4096x256", "order",
       [] {
         return forward({floats({4096, 256})}, [](const Tensors &x) {
           auto [values, indices] = sort(x[0]);
           return Tensors{values, indices};
         });
       }},
      {"sort_dim0_1024x1024", "order",
       [] {
         return forward({floats({1024, 1024})}, [](const Tensors &x) {
           auto [values, indices] = sort(x[0], 0);
           return Tensors{values, indices};
         });
       }},
      // What sampling from a language model starts with.
      {"topk50_32x50257", "order",
       [] {
         return forward({floats({32, 50257})}, [](const Tensors &x) {
           auto [values, indices] = topk(x[0], 50);
           return Tensors{values, indices};
         });
       }},
      {"argsort_int64_256K", "order",
       [] { return forward({indices({1 << 18}, int64_t(1) << 62)}, [](const Tensors &x) { return Tensors{argsort(x[0])}; }); }},
      {"argsort_int64_64x16384", "order",
       [] { return forward({indices({64, 16384}, 50257)}, [](const Tensors &x) { return Tensors{argsort(x[0])}; }); }},
      {"cross_entropy_2048x86", "reduction",
       [] {
         return forward({floats({2048, 86}), indices({2048}, 86)}, [](const Tensors &x) { return Tensors{cross_entropy(x[0], x[1])}; });
       }},
      {"cross_entropy_backward_2048x1024", "reduction",
       [] {
         return forward({floats({2048, 1024}), indices({2048}, 1024)}, [](const Tensors &x) {
           Tensor logits = x[0].detach().set_requires_grad();
           Tensor loss = cross_entropy(logits, x[1]);
           return Tensors{loss, grad({loss}, {logits})[0]};
         });
       }},
      {"cross_entropy_16384x10", "reduction",
       [] {
         return forward({floats({16384, 10}), indices({16384}, 10)}, [](const Tensors &x) { return Tensors{cross_entropy(x[0], x[1])}; });
       }},
      {"cross_entropy_backward_16384x10", "reduction",
       [] {
         return forward({floats({16384, 10}), indices({16384}, 10)}, [](const Tensors &x) {
           Tensor logits = x[0].detach().set_requires_grad();
           return grad({cross_entropy(logits, x[1])}, {logits});
         });
       }},
      unary_row("dropout_1024x1024", "elementwise", {1024, 1024}, [](const Tensor &x) { return dropout(x, 0.1); }),
      linear_row("linear_gpt2_1x768x2304", 1, 768, 2304),
      linear_row("linear_1x1024x1024", 1, 1024, 1024),
      linear_row("linear_gpt2_1024x768x768", 1024, 768, 768),
      linear_row("linear_gpt2_1024x768x2304", 1024, 768, 2304),
      linear_row("linear_gpt2_1024x768x3072", 1024, 768, 3072),
      linear_row("linear_gpt2_1024x3072x768", 1024, 3072, 768),
      linear_row("linear_gpt2_head_64x768x50257", 64, 768, 50257),
      linear_row("linear_gpt2_backward_1024x768x768", 1024, 768, 768, true),
      linear_row("linear_gpt2_backward_1024x768x3072", 1024, 768, 3072, true),
      linear_row("linear_char_gpt_2048x128x512", 2048, 128, 512),
      linear_row("linear_char_gpt_backward_2048x128x512", 2048, 128, 512, true),
      // GPT-2's 12 heads of 64 numbers, 512 tokens.
      products_row("attention_scores_gpt2_12x512x64", 12, 512, 64, 512, true),
      products_row("attention_values_gpt2_12x512x64", 12, 512, 512, 64, false),
      // One token of generation.
      products_row("attention_scores_gpt2_12x1x64", 12, 1, 64, 512, true),
      products_row("attention_values_gpt2_12x1x64", 12, 1, 512, 64, false),
      products_row("attention_scores_gpt2_backward_12x512x64", 12, 512, 64, 512, true, true),
      products_row("attention_values_gpt2_backward_12x512x64", 12, 512, 512, 64, false, true),
      // BERT, a vision transformer, GPT-2, and a long text.
      attention_row("attention_bert_8x12x128x64", {8, 12, 128, 64}, false),
      attention_row("attention_vit_8x12x197x64", {8, 12, 197, 64}, false),
      attention_row("attention_gpt2_1x12x1024x64", {1, 12, 1024, 64}, true),
      attention_row("attention_long_1x8x4096x64", {1, 8, 4096, 64}, true),
      attention_row("attention_backward_bert_8x12x128x64", {8, 12, 128, 64}, false, true),
      attention_row("attention_backward_vit_8x12x197x64", {8, 12, 197, 64}, false, true),
      attention_row("attention_backward_gpt2_1x12x1024x64", {1, 12, 1024, 64}, true, true),
      attention_row("attention_backward_long_1x8x4096x64", {1, 8, 4096, 64}, true, true),
      // float64, which oneDNN has not: solvers' products.
      product64_row("matmul64_32", {32, 32}, {32, 32}),
      product64_row("matmul64_64", {64, 64}, {64, 64}),
      product64_row("matmul64_100", {100, 100}, {100, 100}),
      product64_row("matmul64_128", {128, 128}, {128, 128}),
      product64_row("matmul64_256", {256, 256}, {256, 256}),
      product64_row("matmul64_512", {512, 512}, {512, 512}),
      product64_row("matmul64_1024", {1024, 1024}, {1024, 1024}),
      product64_row("matmul64_left_transposed_512", {512, 512}, {512, 512}, true),
      product64_row("matmul64_right_transposed_512", {512, 512}, {512, 512}, false, true),
      product64_row("matmul64_batch_8x64", {8, 64, 64}, {8, 64, 64}),
      product64_row("matmul64_batch_8x128", {8, 128, 128}, {8, 128, 128}),
      product64_row("matmul64_batch_8x256", {8, 256, 256}, {8, 256, 256}),
      product64_row("matmul64_4096x64x64", {4096, 64}, {64, 64}),
      product64_row("matmul64_gram_4096x64", {4096, 64}, {4096, 64}, true),
      product64_row("matmul64_64x784x128", {64, 784}, {128, 784}, false, true),
      product64_row("matmul64_scores_12x512x64", {12, 512, 64}, {12, 512, 64}, false, true),
      product64_row("matmul64_values_12x512x64", {12, 512, 512}, {12, 512, 64}),
      product64_row("matvec64_256", {256, 256}, {256}),
      product64_row("matvec64_1024", {1024, 1024}, {1024}),
      product64_row("matvec64_4096", {4096, 4096}, {4096}),
      product64_row("matvec64_transposed_1024", {1024, 1024}, {1024}, true),
      // ResNet-50: batch, channels, outputs, image, kernel, stride, padding, groups.
      convolution_row("conv7x7_s2_3_64_224_b1", {1, 3, 64, 224, 7, 2, 3, 1}),
      convolution_row("conv7x7_s2_3_64_224_b16", {16, 3, 64, 224, 7, 2, 3, 1}),
      convolution_row("conv7x7_s2_3_64_224_backward_b16", {16, 3, 64, 224, 7, 2, 3, 1}, true),
      convolution_row("conv3x3_64_56_b1", {1, 64, 64, 56, 3, 1, 1, 1}),
      convolution_row("conv3x3_64_56_b16", {16, 64, 64, 56, 3, 1, 1, 1}),
      convolution_row("conv3x3_64_56_backward_b16", {16, 64, 64, 56, 3, 1, 1, 1}, true),
      convolution_row("conv3x3_512_7_b1", {1, 512, 512, 7, 3, 1, 1, 1}),
      convolution_row("conv3x3_s2_128_56_b1", {1, 128, 128, 56, 3, 2, 1, 1}),
      convolution_row("conv3x3_s2_128_56_b16", {16, 128, 128, 56, 3, 2, 1, 1}),
      convolution_row("conv3x3_s2_128_56_backward_b16", {16, 128, 128, 56, 3, 2, 1, 1}, true),
      convolution_row("conv1x1_256_64_56_b1", {1, 256, 64, 56, 1, 1, 0, 1}),
      convolution_row("conv1x1_256_64_56_b16", {16, 256, 64, 56, 1, 1, 0, 1}),
      convolution_row("conv1x1_256_64_56_backward_b16", {16, 256, 64, 56, 1, 1, 0, 1}, true),
      // MobileNetV2.
      convolution_row("conv3x3_s2_3_32_224_b1", {1, 3, 32, 224, 3, 2, 1, 1}),
      convolution_row("conv3x3_s2_3_32_224_backward_b16", {16, 3, 32, 224, 3, 2, 1, 1}, true),
      convolution_row("conv1x1_24_144_56_b1", {1, 24, 144, 56, 1, 1, 0, 1}),
      convolution_row("conv1x1_24_144_56_backward_b16", {16, 24, 144, 56, 1, 1, 0, 1}, true),
      convolution_row("conv_depthwise3x3_144_56_b1", {1, 144, 144, 56, 3, 1, 1, 144}),
      convolution_row("conv_depthwise3x3_144_56_b16", {16, 144, 144, 56, 3, 1, 1, 144}),
      convolution_row("conv_depthwise3x3_144_56_backward_b16", {16, 144, 144, 56, 3, 1, 1, 144}, true),
      convolution_row("conv_depthwise3x3_s2_144_56_b1", {1, 144, 144, 56, 3, 2, 1, 144}),
      convolution_row("conv_depthwise3x3_s2_144_56_backward_b16", {16, 144, 144, 56, 3, 2, 1, 144}, true),
    };
    // Few rows, few columns; inference of one row.
    for (auto [m, k, n] : kNarrow)
      made.push_back(narrow_row(m, k, n));
    for (auto [m, k, n] : kSkinny)
      for (bool transposed : {true, false})
        made.push_back(skinny_row(m, k, n, transposed));
    for (Row &row :
         std::vector{mlp_row(3, 8192), mlp_row(3, 1024), decode_row(4, 768), decode_row(2, 2048)})
      made.push_back(row);
    return made;
  }();
  return cases;
}

const Row &row_of(const std::string &name) {
  for (const Row &row : table())
    if (row.name == name)
      return row;
  throw std::runtime_error("no case '" + name + "' in the suite ops");
}

} // namespace

const std::vector<std::string> &op_case_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Row &row : table())
      result.push_back(row.name);
    return result;
  }();
  return names;
}

OpCase make_op_case(const std::string &name) {
  return row_of(name).make();
}
std::string op_case_group(const std::string &name) {
  return row_of(name).group;
}
LibraryProblem op_case_problem(const std::string &name) {
  return row_of(name).problem;
}

} // namespace weft::benchmarks
