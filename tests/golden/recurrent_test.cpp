// RNN, LSTM and GRU against PyTorch's: results, last states, and the derivatives by input, states
// and every parameter.
#include <algorithm>

#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"

namespace weft::golden {
namespace {

const GoldenFile &file() {
  static const GoldenFile file("recurrent.safetensors");
  return file;
}

class Recurrent : public ::testing::TestWithParam<std::string> {};

TEST_P(Recurrent, AgreesWithPyTorch) {
  const std::string &name = GetParam();
  auto get = [&](const std::string &key) {
    return file().has(name + "." + key) ? file()[name + "." + key].clone() : Tensor();
  };
  nn::LSTMOptions options;
  if (name.ends_with("deep"))
    options.num_layers = 3;
  if (name.ends_with("both"))
    options = {.num_layers = 2, .batch_first = true, .bidirectional = true};
  if (name.ends_with("bare"))
    options.bias = false;
  if (name.ends_with("one"))
    options.bidirectional = true;
  int64_t input = file()[name + ".p.weight_ih_l0"].size(1),
          hidden = file()[name + ".p.weight_hh_l0"].size(1);

  std::map<std::string, Tensor> leaves;
  for (const char *key : {"x", "hidden0", "cell0"})
    if (Tensor leaf = get(key); leaf.defined())
      leaves[key] = leaf.requires_grad_();
  std::map<std::string, Tensor> results;
  auto check = [&](auto &&net, auto &&call) {
    net.load_state(file().under(name + ".p"));
    for (const auto &[key, parameter] : net.named_parameters())
      leaves["p." + key] = parameter;
    call(net);
    expect_results_and_gradients(results, leaves, get);
  };
  auto simple = [&](auto &net) {
    auto [output, last] =
        net(leaves["x"], leaves.contains("hidden0") ? leaves["hidden0"] : Tensor());
    results = {{"output", output}, {"hidden", last}};
  };
  auto with_cell = [&](auto &net) {
    auto [output, last, cell] = leaves.contains("cell0")
                                    ? net(leaves["x"], leaves["hidden0"], leaves["cell0"])
                                    : net(leaves["x"]);
    results = {{"output", output}, {"hidden", last}, {"cell", cell}};
  };
  if (name.starts_with("lstm"))
    check(nn::LSTM(input, hidden, options), with_cell);
  else if (name.starts_with("gru"))
    check(nn::GRU(input, hidden, options), simple);
  else
    check(nn::RNN(input, hidden,
                  {.num_layers = options.num_layers,
                   .nonlinearity = name.starts_with("rnn_relu") ? nn::Nonlinearity::kReLU
                                                                : nn::Nonlinearity::kTanh,
                   .bias = options.bias,
                   .batch_first = options.batch_first,
                   .bidirectional = options.bidirectional}),
          simple);
}

INSTANTIATE_TEST_SUITE_P(, Recurrent, ::testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
