// Cells against PyTorch's: their states after two steps, and the derivatives by input, states and
// every parameter.
#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"

namespace weft::golden {
namespace {

const GoldenFile &file() {
  static const GoldenFile file("cells.safetensors");
  return file;
}

class Cells : public ::testing::TestWithParam<std::string> {};

// step(cell, x, states) gives the next states.
template <typename Cell, typename Step>
void check(const std::string &name, const Cell &cell, const std::vector<std::string> &states,
           const Step &step) {
  auto get = [&](const std::string &key) {
    return file().has(name + "." + key) ? file()[name + "." + key].clone() : Tensor();
  };
  Cell loaded = cell;
  loaded.load_state(file().under(name + ".p"));
  std::map<std::string, Tensor> leaves;
  for (const auto &[key, parameter] : loaded.named_parameters())
    leaves["p." + key] = parameter;
  Tensor x = leaves["x"] = get("x").requires_grad_();
  std::vector<Tensor> now;
  for (const std::string &state : states) {
    now.push_back(get(state + "0"));
    if (now.back().defined())
      leaves[state + "0"] = now.back().requires_grad_();
  }
  for (int64_t t = 0; t < x.size(0); ++t)
    now = step(loaded, x[t], now);
  std::vector<std::pair<std::string, Tensor>> results;
  for (size_t i = 0; i < states.size(); ++i)
    results.emplace_back(states[i], now[i]);
  expect_results_and_gradients(results, leaves, get);
}

TEST_P(Cells, AgreeWithPyTorch) {
  const std::string &name = GetParam();
  bool bias = !name.ends_with("bare");
  auto simple = [](const auto &cell, const Tensor &x, const std::vector<Tensor> &states) {
    return std::vector<Tensor>{cell(x, states[0])};
  };
  if (name.starts_with("lstm"))
    check(name, nn::LSTMCell(4, 6, {.bias = bias}), {"hidden", "cell"},
          [](const nn::LSTMCell &cell, const Tensor &x, const std::vector<Tensor> &states) {
            auto [h, c] = cell(x, states[0], states[1]);
            return std::vector<Tensor>{h, c};
          });
  else if (name.starts_with("gru"))
    check(name, nn::GRUCell(4, 6, {.bias = bias}), {"hidden"}, simple);
  else
    check(name,
          nn::RNNCell(4, 6,
                      {.nonlinearity = name.starts_with("rnn_relu") ? nn::Nonlinearity::kReLU
                                                                    : nn::Nonlinearity::kTanh,
                       .bias = bias}),
          {"hidden"}, simple);
}

INSTANTIATE_TEST_SUITE_P(, Cells, ::testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
