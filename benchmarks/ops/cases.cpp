#include "benchmarks/ops/cases.h"

#include <map>
#include <stdexcept>

#include "weft/data/random.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

using Tensors = std::vector<Tensor>;

// Numbers in [-1, 1), without an op of ours.
Tensor floats(const Shape &shape) {
  data::SplitMix64 random(1);
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  std::vector<float> values(n);
  for (float &value : values) value = static_cast<float>(random.below(1 << 24)) * 0x1p-23f - 1.0f;
  return Tensor::from(values, shape);
}

Tensor indices(const Shape &shape, int64_t below) {
  data::SplitMix64 random(2);
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  std::vector<int64_t> values(n);
  for (int64_t &value : values) value = static_cast<int64_t>(random.below(static_cast<uint64_t>(below)));
  return Tensor::from(values, shape);
}

int64_t bytes_of(const Tensors &tensors) {
  int64_t bytes = 0;
  for (const Tensor &tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

OpCase forward(Tensors inputs, std::function<Tensors(const Tensors &)> function) {
  for (const Tensor &input : inputs) input.eval();
  OpCase made{inputs, [inputs, function] { return function(inputs); }, 0};
  made.bytes = bytes_of(inputs) + bytes_of(made.run());
  return made;
}

// The derivative by the first `differentiated` inputs, with the last input as the results' weight; the results themselves are not asked
// for.
OpCase backward(Tensors inputs, size_t differentiated, std::function<Tensor(const Tensors &)> function) {
  return forward(std::move(inputs), [=](const Tensors &given) {
    Tensors leaves(given.begin(), given.end());
    for (size_t i = 0; i < differentiated; ++i) leaves[i] = leaves[i].detach().set_requires_grad();
    GradOptions options;
    options.grad_outputs = {given.back()};
    return grad({function(leaves)}, {leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(differentiated)}, options);
  });
}

OpCase unary(const Shape &shape, std::function<Tensor(const Tensor &)> function) {
  return forward({floats(shape)}, [=](const Tensors &x) { return Tensors{function(x[0])}; });
}

// x [m, k] times weight [n, k], as nn::Linear has it.
OpCase linear_case(int64_t m, int64_t k, int64_t n, bool differentiate) {
  if (differentiate)
    return backward({floats({m, k}), floats({n, k}), floats({m, n})}, 2, [](const Tensors &x) { return linear(x[0], x[1]); });
  return forward({floats({m, k}), floats({n, k}), floats({n})}, [](const Tensors &x) { return Tensors{linear(x[0], x[1], x[2])}; });
}

using Maker = std::function<OpCase()>;
const std::vector<std::pair<std::string, Maker>> &table() {
  static const std::vector<std::pair<std::string, Maker>> cases = {
      {"chain_tanh_sigmoid_16M",
       [] {
         return forward({floats({1 << 24}), floats({1 << 24})},
                        [](const Tensors &x) { return Tensors{tanh(x[0] * x[1] + 1.0) * sigmoid(x[0] - x[1]) + x[1]}; });
       }},
      {"chain_add_mul_relu_4M",
       [] {
         return forward({floats({2048, 2048}), floats({2048, 2048}), floats({2048})},
                        [](const Tensors &x) { return Tensors{relu(x[0] * x[1] + x[2])}; });
       }},
      {"gelu_2048x512", [] { return unary({2048, 512}, [](const Tensor &x) { return gelu(x); }); }},
      {"gelu_backward_2048x512",
       [] { return backward({floats({2048, 512}), floats({2048, 512})}, 1, [](const Tensors &x) { return gelu(x[0]); }); }},
      {"softmax_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return softmax(x, -1); }); }},
      {"softmax_8192x128", [] { return unary({8192, 128}, [](const Tensor &x) { return softmax(x, -1); }); }},
      {"softmax_dim0_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return softmax(x, 0); }); }},
      {"softmax_backward_1024x1024",
       [] { return backward({floats({1024, 1024}), floats({1024, 1024})}, 1, [](const Tensors &x) { return softmax(x[0], -1); }); }},
      {"log_softmax_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return log_softmax(x, -1); }); }},
      {"log_softmax_backward_1024x1024",
       [] { return backward({floats({1024, 1024}), floats({1024, 1024})}, 1, [](const Tensors &x) { return log_softmax(x[0], -1); }); }},
      {"layer_norm_1024x1024",
       [] {
         return forward({floats({1024, 1024}), floats({1024}), floats({1024})},
                        [](const Tensors &x) { return Tensors{layer_norm(x[0], {1024}, x[1], x[2])}; });
       }},
      {"layer_norm_2048x128",
       [] {
         return forward({floats({2048, 128}), floats({128}), floats({128})},
                        [](const Tensors &x) { return Tensors{layer_norm(x[0], {128}, x[1], x[2])}; });
       }},
      {"layer_norm_backward_1024x1024",
       [] {
         return backward({floats({1024, 1024}), floats({1024}), floats({1024}), floats({1024, 1024})}, 3,
                         [](const Tensors &x) { return layer_norm(x[0], {1024}, x[1], x[2]); });
       }},
      {"layer_norm_backward_2048x128",
       [] {
         return backward({floats({2048, 128}), floats({128}), floats({128}), floats({2048, 128})}, 3,
                         [](const Tensors &x) { return layer_norm(x[0], {128}, x[1], x[2]); });
       }},
      {"sum_all_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return sum(x); }); }},
      {"sum_dim0_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return sum(x, 0); }); }},
      {"sum_dim1_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return sum(x, 1); }); }},
      {"max_dim1_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return max(x, 1); }); }},
      {"sum_dim0_64x128x256", [] { return unary({64, 128, 256}, [](const Tensor &x) { return sum(x, 0); }); }},
      {"sum_dim1_64x128x256", [] { return unary({64, 128, 256}, [](const Tensor &x) { return sum(x, 1); }); }},
      {"sum_dim2_64x128x256", [] { return unary({64, 128, 256}, [](const Tensor &x) { return sum(x, 2); }); }},
      {"mean_dims02_64x128x256", [] { return unary({64, 128, 256}, [](const Tensor &x) { return mean(x, {0, 2}); }); }},
      {"transpose_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return x.transpose(0, 1).clone(); }); }},
      {"transpose_1000x1000", [] { return unary({1000, 1000}, [](const Tensor &x) { return x.transpose(0, 1).clone(); }); }},
      {"transpose_add_1024x1024",
       [] {
         return forward({floats({1024, 1024}), floats({1024, 1024})},
                        [](const Tensors &x) { return Tensors{x[0].transpose(0, 1) + x[1]}; });
       }},
      {"split_heads_16x128x4x32", [] { return unary({16, 128, 4, 32}, [](const Tensor &x) { return x.transpose(1, 2).clone(); }); }},
      {"embedding_2048_of_8192x128",
       [] {
         return forward({indices({16, 128}, 8192), floats({8192, 128})}, [](const Tensors &x) { return Tensors{embedding(x[0], x[1])}; });
       }},
      {"embedding_backward_2048_of_8192x128",
       [] {
         return forward({indices({16, 128}, 8192), floats({8192, 128}), floats({16, 128, 128})}, [](const Tensors &x) {
           Tensor weight = x[1].detach().set_requires_grad();
           GradOptions options;
           options.grad_outputs = {x[2]};
           return grad({embedding(x[0], weight)}, {weight}, options);
         });
       }},
      {"gather_dim1_1024x1024",
       [] {
         return forward({floats({1024, 1024}), indices({1024, 1024}, 1024)},
                        [](const Tensors &x) { return Tensors{gather(x[0], 1, x[1])}; });
       }},
      {"scatter_add_dim0_1024x256",
       [] {
         return forward({floats({512, 256}), indices({1024, 256}, 512), floats({1024, 256})},
                        [](const Tensors &x) { return Tensors{scatter_add(x[0], 0, x[1], x[2])}; });
       }},
      {"scatter_add_dim1_1024x256",
       [] {
         return forward({floats({1024, 128}), indices({1024, 256}, 128), floats({1024, 256})},
                        [](const Tensors &x) { return Tensors{scatter_add(x[0], 1, x[1], x[2])}; });
       }},
      {"cross_entropy_2048x86",
       [] {
         return forward({floats({2048, 86}), indices({2048}, 86)}, [](const Tensors &x) { return Tensors{cross_entropy(x[0], x[1])}; });
       }},
      {"cross_entropy_backward_2048x1024",
       [] {
         return forward({floats({2048, 1024}), indices({2048}, 1024)}, [](const Tensors &x) {
           Tensor logits = x[0].detach().set_requires_grad();
           Tensor loss = cross_entropy(logits, x[1]);
           return Tensors{loss, grad({loss}, {logits})[0]};
         });
       }},
      {"dropout_1024x1024", [] { return unary({1024, 1024}, [](const Tensor &x) { return dropout(x, 0.1); }); }},
      {"linear_gpt2_1024x768x2304", [] { return linear_case(1024, 768, 2304, false); }},
      {"linear_gpt2_1024x768x3072", [] { return linear_case(1024, 768, 3072, false); }},
      {"linear_gpt2_1024x3072x768", [] { return linear_case(1024, 3072, 768, false); }},
      {"linear_gpt2_backward_1024x768x768", [] { return linear_case(1024, 768, 768, true); }},
      {"linear_char_gpt_2048x128x512", [] { return linear_case(2048, 128, 512, false); }},
      {"linear_char_gpt_backward_2048x128x512", [] { return linear_case(2048, 128, 512, true); }},
  };
  return cases;
}

} // namespace

const std::vector<std::string> &op_case_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto &entry : table()) result.push_back(entry.first);
    return result;
  }();
  return names;
}

OpCase make_op_case(const std::string &name) {
  for (const auto &[known, make] : table())
    if (known == name) return make();
  throw std::runtime_error("no case '" + name + "' in the suite ops");
}

} // namespace weft::benchmarks
