// Values and derivatives of elementwise functions, reductions, movement, indexing and losses
// against PyTorch's.
#include "tests/golden/golden_case.h"

namespace weft::golden {
namespace {

const CaseFunctions kFunctions = {
    {"unary_sign", [](auto &, auto &in) { return sign(in[0]); }},
    {"unary_expm1", [](auto &, auto &in) { return expm1(in[0]); }},
    {"unary_log1p", [](auto &, auto &in) { return log1p(in[0]); }},
    {"unary_sin", [](auto &, auto &in) { return sin(in[0]); }},
    {"unary_cos", [](auto &, auto &in) { return cos(in[0]); }},
    {"unary_floor", [](auto &, auto &in) { return floor(in[0]); }},
    {"unary_ceil", [](auto &, auto &in) { return ceil(in[0]); }},
    {"unary_round", [](auto &, auto &in) { return round(in[0]); }},
    {"activation_silu", [](auto &, auto &in) { return nn::SiLU()(in[0]); }},
    {"activation_softplus", [](auto &, auto &in) { return nn::Softplus()(in[0]); }},
    {"activation_elu", [](auto &, auto &in) { return nn::ELU()(in[0]); }},
    {"activation_selu", [](auto &, auto &in) { return nn::SELU()(in[0]); }},
    {"activation_leaky_relu", [](auto &, auto &in) { return nn::LeakyReLU()(in[0]); }},
    {"activation_logsigmoid", [](auto &, auto &in) { return nn::LogSigmoid()(in[0]); }},
    {"activation_mish", [](auto &, auto &in) { return nn::Mish()(in[0]); }},
    {"activation_hardsigmoid", [](auto &, auto &in) { return nn::Hardsigmoid()(in[0]); }},
    {"activation_hardswish", [](auto &, auto &in) { return nn::Hardswish()(in[0]); }},
    {"elu_alpha", [](auto &, auto &in) { return elu(in[0], 0.3); }},
    {"remainder", [](auto &, auto &in) { return in[0] % in[1]; }},
    {"clamp", [](auto &, auto &in) { return clamp(in[0], -1, 0.5); }},
    {"clamp_min", [](auto &, auto &in) { return clamp(in[0], 0.5); }},
    {"clamp_tensors", [](auto &, auto &in) { return clamp(in[0], in[1], in[2]); }},
    {"amin_ties", [](auto &, auto &in) { return min(in[0], 1); }},
    {"prod", [](auto &, auto &in) { return prod(in[0], 1); }},
    {"cumsum", [](auto &name, auto &in) { return cumsum(in[0], name.back() - '0'); }},
    {"flip", [](auto &, auto &in) { return flip(in[0], {1, 3}); }},
    {"pad_constant",
     [](auto &, auto &in) { return pad(in[0], {1, 2, 0, 3}, PadMode::kConstant, 0.5); }},
    {"pad_cut", [](auto &, auto &in) { return pad(in[0], {-1, 2, 1, -2}); }},
    {"pad_reflect", [](auto &, auto &in) { return pad(in[0], {2, 1, 3, 0}, PadMode::kReflect); }},
    {"pad_replicate",
     [](auto &, auto &in) { return pad(in[0], {2, 1, 0, 4}, PadMode::kReplicate); }},
    {"repeat_interleave", [](auto &, auto &in) { return repeat_interleave(in[0], 3, 1); }},
    {"repeat_tiles", [](auto &, auto &in) { return repeat(in[0], {2, 1, 3}); }},
    {"index_rows", [](auto &, auto &in) { return in[0].index({in[1]}); }},
    {"index_pairs", [](auto &, auto &in) { return in[0].index({Slice(), in[1], in[2]}); }},
    {"index_apart", [](auto &, auto &in) { return in[0].index({in[1], Slice(), in[2]}); }},
    {"index_mask", [](auto &, auto &in) { return in[0].index({in[1]}); }},
    {"index_mask_rows", [](auto &, auto &in) { return in[0].index({in[1], Slice(1)}); }},
    {"index_put", [](auto &, auto &in) { return index_put(in[0], {in[2]}, in[1]); }},
    {"index_put_add", [](auto &, auto &in) { return index_put(in[0], {in[2]}, in[1], true); }},
    {"index_put_pairs", [](auto &, auto &in) { return index_put(in[0], {in[2], in[3]}, in[1]); }},
    {"nll", [](auto &name, auto &in) { return nn::nll_loss(in[0], in[1], reduction_of(name)); }},
    {"bce",
     [](auto &name, auto &in) {
       return nn::binary_cross_entropy_with_logits(in[0], in[1], reduction_of(name));
     }},
    {"bce_weighted",
     [](auto &, auto &in) {
       return nn::binary_cross_entropy_with_logits(in[0], in[1], Reduction::kMean,
                                                   tensor({0.5f, 2.0f, 1.0f, 3.0f}));
     }},
    {"bce_large",
     [](auto &, auto &in) {
       return nn::binary_cross_entropy_with_logits(in[0], in[1], Reduction::kNone);
     }},
    {"l1", [](auto &name, auto &in) { return nn::l1_loss(in[0], in[1], reduction_of(name)); }},
    {"huber",
     [](auto &name, auto &in) { return nn::huber_loss(in[0], in[1], 0.7, reduction_of(name)); }},
    {"smooth_l1",
     [](auto &name, auto &in) {
       return nn::smooth_l1_loss(in[0], in[1], 0.4, reduction_of(name));
     }},
    {"kl", [](auto &name, auto &in) { return nn::kl_div(in[0], in[1], reduction_of(name)); }},
    {"kl_log",
     [](auto &name, auto &in) { return nn::kl_div(in[0], in[1], reduction_of(name), true); }},
};

const GoldenFile &file() {
  static const GoldenFile file("functions.safetensors");
  return file;
}

class FunctionsTest : public testing::TestWithParam<std::string> {};

TEST_P(FunctionsTest, ValuesAndDerivativesArePyTorchs) {
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(Cases, FunctionsTest, testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
