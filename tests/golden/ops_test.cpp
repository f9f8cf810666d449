// Values and derivatives of ops, losses and layers against PyTorch's: broadcasting, ties, poles, masks and ignored targets included.
#include <functional>

#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"

namespace weft::golden {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs &)>;

Tensor input(const Inputs &inputs, size_t i) { return i < inputs.size() ? inputs[i] : Tensor(); }

Reduction reduction_of(const std::string &name) {
  if (name.ends_with("_sum")) return Reduction::kSum;
  if (name.ends_with("_none")) return Reduction::kNone;
  return Reduction::kMean;
}

// What computes a case: found by the longest prefix of its name.
const std::vector<std::pair<std::string, std::function<Tensor(const std::string &name, const Inputs &)>>> kFunctions = {
    {"broadcast", [](auto &, auto &in) { return in[0] * in[1] + in[0]; }},
    {"matmul", [](auto &, auto &in) { return matmul(in[0], in[1]); }},
    {"softmax", [](auto &name, auto &in) { return softmax(in[0], std::isdigit(name.back()) ? name.back() - '0' : 1); }},
    {"log_softmax", [](auto &name, auto &in) { return log_softmax(in[0], std::isdigit(name.back()) ? name.back() - '0' : 1); }},
    {"layer_norm", [](auto &, auto &in) { return layer_norm(in[0], {8}, input(in, 1), input(in, 2)); }},
    {"layer_norm_two_dims", [](auto &, auto &in) { return layer_norm(in[0], {5, 8}, in[1], in[2], 1e-3); }},
    {"attention", [](auto &, auto &in) { return attention(in[0], in[1], in[2], input(in, 3)); }},
    {"attention_causal", [](auto &, auto &in) { return attention(in[0], in[1], in[2], Tensor(), {.causal = true, .scale = {}}); }},
    {"attention_scale", [](auto &, auto &in) { return attention(in[0], in[1], in[2], Tensor(), {.causal = false, .scale = 0.3}); }},
    {"cross_entropy", [](auto &name, auto &in) { return nn::cross_entropy(in[0], in[1], reduction_of(name)); }},
    {"cross_entropy_ignore_2", [](auto &, auto &in) { return nn::cross_entropy(in[0], in[1], Reduction::kMean, 2); }},
    {"mse", [](auto &name, auto &in) { return nn::mse(in[0], in[1], reduction_of(name)); }},
    {"unary_abs", [](auto &, auto &in) { return abs(in[0]); }},
    {"unary_exp", [](auto &, auto &in) { return exp(in[0]); }},
    {"unary_tanh", [](auto &, auto &in) { return tanh(in[0]); }},
    {"unary_erf", [](auto &, auto &in) { return erf(in[0]); }},
    {"unary_sigmoid", [](auto &, auto &in) { return sigmoid(in[0]); }},
    {"unary_relu", [](auto &, auto &in) { return relu(in[0]); }},
    {"unary_log", [](auto &, auto &in) { return log(in[0]); }},
    {"unary_sqrt", [](auto &, auto &in) { return sqrt(in[0]); }},
    {"unary_rsqrt", [](auto &, auto &in) { return rsqrt(in[0]); }},
    {"gelu_none", [](auto &, auto &in) { return gelu(in[0]); }},
    {"gelu_tanh", [](auto &, auto &in) { return gelu(in[0], "tanh"); }},
    {"pow", [](auto &, auto &in) { return pow(in[0], in[1]); }},
    {"amax_ties", [](auto &, auto &in) { return max(in[0], 1); }},
    {"maximum_ties", [](auto &, auto &in) { return maximum(in[0], in[1]); }},
    {"minimum_ties", [](auto &, auto &in) { return minimum(in[0], in[1]); }},
    {"mean", [](auto &, auto &in) { return mean(in[0], {0, 2}); }},
    {"var", [](auto &, auto &in) { return var(in[0], 1); }},
    {"gather", [](auto &, auto &in) { return gather(in[0], 1, in[1]); }},
    {"scatter_add", [](auto &, auto &in) { return scatter_add(in[0], 0, in[1], in[2]); }},
    {"index_select", [](auto &, auto &in) { return index_select(in[0], 1, in[1]); }},
    {"embedding", [](auto &, auto &in) { return embedding(in[1], in[0]); }},
};

const GoldenFile &file() {
  static const GoldenFile file("ops.safetensors");
  return file;
}

class OpsTest : public testing::TestWithParam<std::string> {};

TEST_P(OpsTest, ValuesAndDerivativesArePyTorchs) {
  const std::string &name = GetParam();
  const std::function<Tensor(const std::string &, const Inputs &)> *function = nullptr;
  size_t longest = 0;
  for (const auto &[prefix, candidate] : kFunctions)
    if (name.starts_with(prefix) && prefix.size() > longest) {
      function = &candidate;
      longest = prefix.size();
    }
  ASSERT_NE(function, nullptr) << "nothing computes the case " << name;

  Inputs inputs, leaves;
  std::vector<std::string> wanted;
  Tensor expected, weight;
  for (auto &[key, tensor] : file().under(name)) {
    if (key == "out") expected = tensor;
    else if (key == "weight") weight = tensor;
    else if (!key.starts_with("grad.")) {
      inputs.push_back(tensor.clone());
      if (is_floating(tensor.dtype())) {
        inputs.back().requires_grad_();
        leaves.push_back(inputs.back());
        wanted.push_back(key);
      }
    }
  }
  Tensor result = (*function)(name, inputs);
  ASSERT_EQ(result.shape(), expected.shape());
  ASSERT_EQ(result.dtype(), expected.dtype());
  // A dozen roundings of f32; a large logit leaves the others' digits to its own size.
  EXPECT_LT(relative_distance(result, expected), 2e-6) << "\n" << result << "\nexpected\n" << expected;
  std::vector<Tensor> gradients = grad({(result * weight).sum()}, leaves, {.allow_unused = true});
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Tensor &golden = file()[name + ".grad." + wanted[i]];
    Tensor gradient = gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]);
    EXPECT_LT(relative_distance(gradient, golden), 5e-6) << "by " << wanted[i] << "\n" << gradient << "\nexpected\n" << golden;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OpsTest, testing::ValuesIn(file().cases()), [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
