// Convolutions and pooling of signals, further norms and losses, and PyTorch's encoder layer,
// against PyTorch's numbers.
#include "tests/golden/golden_case.h"

namespace weft::golden {
namespace {

Tensor fixed(const Tensor &x) {
  return x.detach();
}

const CaseFunctions kFunctions = {
    {"conv1d_plain", [](auto &, auto &in) { return conv1d(in[0], in[1]); }},
    {"conv1d_options",
     [](auto &, auto &in) {
       return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 3, .dilation = 2, .groups = 2});
     }},
    {"conv_transpose1d",
     [](auto &, auto &in) {
       return conv_transpose1d(in[0], in[1], in[2],
                               {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2});
     }},
    {"max_pool1d",
     [](auto &, auto &in) { return max_pool1d(in[0], 3, {.stride = 2, .padding = 1}); }},
    {"max_pool1d_ceil",
     [](auto &, auto &in) { return max_pool1d(in[0], 2, {.dilation = 2, .ceil_mode = true}); }},
    {"avg_pool1d",
     [](auto &, auto &in) { return avg_pool1d(in[0], 3, {.stride = 2, .padding = 1}); }},
    {"avg_pool1d_inside",
     [](auto &, auto &in) {
       return avg_pool1d(
           in[0], 4, {.stride = 3, .padding = 2, .ceil_mode = true, .count_include_pad = false});
     }},
    {"adaptive_avg_pool1d", [](auto &, auto &in) { return adaptive_avg_pool1d(in[0], 4); }},
    {"instance_norm", [](auto &, auto &in) { return group_norm(in[0], 3, in[1], in[2]); }},
    {"batch_norm1d",
     [](auto &, auto &in) { return batch_norm(in[0], {}, {}, in[1], in[2], {.training = true}); }},
    {"padding",
     [](auto &, auto &in) {
       nn::Embedding table(5, 3, {.padding_idx = -3});
       EXPECT_EQ(table.weight[2].to_vector<float>(), (std::vector<float>{0, 0, 0}));
       // The module's own weight takes the place of PyTorch's: its gradient is asked for by the
       // case's input.
       Tensor rows = embedding(in[1], in[0]);
       return where((in[1] == 2).unsqueeze(-1), rows.detach(), rows);
     }},
    {"ranking",
     [](auto &name, auto &in) {
       return nn::margin_ranking_loss(in[0], in[1], in[2], 0.3, reduction_of(name));
     }},
    {"cosine",
     [](auto &name, auto &in) {
       return nn::cosine_embedding_loss(in[0], in[1], in[2], 0.1, reduction_of(name));
     }},
    {"triplet",
     [](auto &name, auto &in) {
       return nn::triplet_margin_loss(in[0], in[1], in[2],
                                      {.margin = 2, .reduction = reduction_of(name)});
     }},
    {"triplet_swap",
     [](auto &, auto &in) { return nn::triplet_margin_loss(in[0], in[1], in[2], {.swap = true}); }},
    {"hinge",
     [](auto &name, auto &in) {
       return nn::hinge_embedding_loss(in[0], in[1], 0.7, reduction_of(name));
     }},
    {"soft",
     [](auto &name, auto &in) { return nn::soft_margin_loss(in[0], in[1], reduction_of(name)); }},
    {"multi1",
     [](auto &name, auto &in) {
       return nn::multi_margin_loss(in[0], in[1], 1, 0.8, reduction_of(name));
     }},
    {"multi2",
     [](auto &name, auto &in) {
       return nn::multi_margin_loss(in[0], in[1], 2, 1, reduction_of(name));
     }},
    {"bce",
     [](auto &name, auto &in) {
       return nn::binary_cross_entropy(in[0], fixed(in[1]), reduction_of(name));
     }},
    {"poisson",
     [](auto &name, auto &in) {
       return nn::poisson_nll_loss(in[0], fixed(in[1]), true, 1e-8, reduction_of(name));
     }},
    {"poisson_rate",
     [](auto &, auto &in) { return nn::poisson_nll_loss(in[0], fixed(in[1]), false); }},
    {"index_copy", [](auto &, auto &in) { return index_copy(in[0], 1, in[2], in[1]); }},
};

const GoldenFile &file() {
  static const GoldenFile file("signals.safetensors");
  return file;
}

class Signals : public ::testing::TestWithParam<std::string> {};

TEST_P(Signals, AgreesWithPyTorch) {
  check_case(file(), GetParam(), kFunctions);
}

std::vector<std::string> cases() {
  std::vector<std::string> names = file().cases();
  std::erase(names, "encoder");
  return names;
}
INSTANTIATE_TEST_SUITE_P(, Signals, ::testing::ValuesIn(cases()),
                         [](const auto &info) { return info.param; });

// PyTorch's layer by default: normalized after each branch, with a relu.
TEST(SignalModules, TheEncoderLayer) {
  nn::TransformerBlock block(8, 2, {.hidden = 12, .norm_first = false, .relu = true});
  NoGrad no_grad;
  const GoldenFile &golden = file();
  Tensor projections = golden["encoder.self_attn.in_proj_weight"],
         biases = golden["encoder.self_attn.in_proj_bias"];
  int64_t row = 0;
  for (nn::Linear *part :
       {&block.self_attn.q_proj, &block.self_attn.k_proj, &block.self_attn.v_proj}) {
    part->weight.copy_(projections.narrow(0, row, 8));
    part->bias.copy_(biases.narrow(0, row, 8));
    row += 8;
  }
  auto set = [&](nn::Parameter &parameter, const char *name) {
    parameter.copy_(golden[std::string("encoder.") + name]);
  };
  set(block.self_attn.out_proj.weight, "self_attn.out_proj.weight");
  set(block.self_attn.out_proj.bias, "self_attn.out_proj.bias");
  set(block.linear1.weight, "linear1.weight");
  set(block.linear1.bias, "linear1.bias");
  set(block.linear2.weight, "linear2.weight");
  set(block.linear2.bias, "linear2.bias");
  set(block.norm1.weight, "norm1.weight");
  set(block.norm1.bias, "norm1.bias");
  set(block.norm2.weight, "norm2.weight");
  set(block.norm2.bias, "norm2.bias");
  EXPECT_LT(relative_distance(block(golden["encoder.x"]), golden["encoder.out"]), 2e-6);
}

// The modules take the functions' options, and their weights have PyTorch's shapes.
TEST(SignalModules, Modules) {
  nn::Conv1d conv(4, 6, 3, {.stride = 2, .padding = 3, .dilation = 2, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), (Shape{6, 2, 3}));
  Tensor x = randn({2, 4, 11});
  EXPECT_TRUE(all_close(conv(x), conv1d(x, conv.weight, conv.bias,
                                        {.stride = 2, .padding = 3, .dilation = 2, .groups = 2})));
  nn::ConvTranspose1d back(4, 6, 4, {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2});
  EXPECT_EQ(back.weight.shape(), (Shape{4, 3, 4}));
  EXPECT_EQ(back(x).shape(), (Shape{2, 6, 34}));
  EXPECT_EQ(nn::MaxPool1d(3, {.stride = 2})(x).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(nn::AvgPool1d(2)(x).shape(), (Shape{2, 4, 5}));
  EXPECT_EQ(nn::AdaptiveAvgPool1d(3)(x).shape(), (Shape{2, 4, 3}));
  EXPECT_TRUE(all_close(nn::InstanceNorm2d(4)(x.unsqueeze(2)), group_norm(x.unsqueeze(2), 4)));
  EXPECT_THROW(nn::InstanceNorm2d(4)(ones({2, 4, 1, 1})), Error);

  // In training the batch's statistics move the running ones, which evaluation uses.
  nn::BatchNorm1d norm(4);
  Tensor y = norm(x);
  EXPECT_NEAR(y.mean({0, 2}).abs().max().item<float>(), 0, 1e-6);
  EXPECT_TRUE(all_close(norm.running_mean, x.mean({0, 2}) * 0.1));
  norm.eval();
  EXPECT_TRUE(all_close(
      norm(x[0].t()), (x[0].t() - norm.running_mean) / sqrt(norm.running_var + 1e-5), 1e-5, 1e-6));
  EXPECT_EQ(norm.named_buffers().size(), 2u);
}

TEST(SignalModules, APaddingRowGetsNoGradient) {
  nn::Embedding table(5, 3, {.padding_idx = 2});
  table(tensor<int64_t>({2, 0, -3, 4})).sum().backward();
  EXPECT_EQ(table.weight.grad().sum(1).to_vector<float>(), (std::vector<float>{3, 0, 0, 0, 3}));
  EXPECT_EQ(table.weight[2].to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

} // namespace
} // namespace weft::golden
