// Values and derivatives of ops, losses and layers against PyTorch's: broadcasting, ties, poles,
// masks and ignored targets included.
#include "tests/golden/golden_case.h"
#include "weft/nn/nn.h"

namespace weft::golden {
namespace {

// What computes a case: found by the longest prefix of its name.
const CaseFunctions kFunctions = {
    {"broadcast", [](auto &, auto &in) { return in[0] * in[1] + in[0]; }},
    {"matmul", [](auto &, auto &in) { return matmul(in[0], in[1]); }},
    {"softmax",
     [](auto &name, auto &in) {
       return softmax(in[0], std::isdigit(name.back()) ? name.back() - '0' : 1);
     }},
    {"log_softmax",
     [](auto &name, auto &in) {
       return log_softmax(in[0], std::isdigit(name.back()) ? name.back() - '0' : 1);
     }},
    {"layer_norm",
     [](auto &, auto &in) { return layer_norm(in[0], {8}, input(in, 1), input(in, 2)); }},
    {"layer_norm_two_dims",
     [](auto &, auto &in) { return layer_norm(in[0], {5, 8}, in[1], in[2], 1e-3); }},
    {"attention", [](auto &, auto &in) { return attention(in[0], in[1], in[2], input(in, 3)); }},
    {"attention_causal",
     [](auto &, auto &in) {
       return attention(in[0], in[1], in[2], Tensor(), {.causal = true, .scale = {}});
     }},
    {"attention_scale",
     [](auto &, auto &in) {
       return attention(in[0], in[1], in[2], Tensor(), {.causal = false, .scale = 0.3});
     }},
    {"cross_entropy",
     [](auto &name, auto &in) { return nn::cross_entropy(in[0], in[1], reduction_of(name)); }},
    {"cross_entropy_ignore_2",
     [](auto &, auto &in) { return nn::cross_entropy(in[0], in[1], Reduction::kMean, 2); }},
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
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(Cases, OpsTest, testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
