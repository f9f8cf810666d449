// The library's models against torchvision's and transformers' (tools/models/make_figures.py):
// names, shapes and dtypes of all parameters and buffers, and of small models outputs, loss and
// gradients, with weights by a formula on both sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>

#include "tests/models/cases.h"
#include "tests/models/formula.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

// Relative, of float32 against PyTorch's float64: a few hundred roundings along the longest path.
constexpr double kTolerance = 1e-4;
// What is 0 but for rounding, as the gradient of a bias before a batch norm or of attention's keys,
// is held against the gradient of all parameters.
constexpr double kOfAll = 1e-6;

double norm_of(const std::vector<double> &x) {
  double sum = 0;
  for (double each : x)
    sum += each * each;
  return std::sqrt(sum);
}

double relative_distance(const Tensor &actual, const Tensor &expected) {
  if (actual.shape() != expected.shape())
    return INFINITY;
  std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double size = norm_of(e);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] -= e[i];
  return norm_of(a) / (size > 0 ? size : 1);
}

class Figures : public testing::TestWithParam<size_t> {};

TEST_P(Figures, AreThoseOfPyTorch) {
  const Case &what = cases()[GetParam()];
  io::SafeTensors file = io::load_safetensors("tests/models/data/" + what.name + ".safetensors");
  std::map<std::string, Tensor> expected(file.tensors.begin(), file.tensors.end());
  models::AnyModel model = what.make();

  std::ostringstream names;
  nn::NamedTensors values = model.state();
  for (auto &[name, tensor] : values) {
    names << (names.tellp() ? "\n" : "") << name << " " << weft::name(tensor.dtype()) << " ";
    for (size_t i = 0; i < tensor.shape().size(); ++i)
      names << (i ? "x" : "") << tensor.shape()[i];
    if (is_floating(tensor.dtype()))
      tensor = weight(name, tensor.shape());
  }
  ASSERT_EQ(names.str(), file.metadata.at("state"));
  model.module().load_state(values);

  std::vector<Tensor> inputs = what.inputs(file.metadata.at("salt")), outputs = model(inputs);
  Tensor loss = zeros({});
  for (size_t i = 0; i < outputs.size(); ++i)
    loss = loss +
           (outputs[i] - unit("target" + std::to_string(i), outputs[i].shape())).square().mean();
  loss.backward();
  nn::NamedTensors parameters = model.module().named_parameters();
  std::vector<Tensor> wanted = outputs;
  wanted.push_back(loss);
  for (const auto &[name, parameter] : parameters)
    if (parameter.grad().defined())
      wanted.push_back(parameter.grad());
  for (const auto &[name, buffer] : model.module().named_buffers())
    wanted.push_back(buffer);
  eval(wanted);

  double worst_output = relative_distance(loss, expected.at("loss")), worst_gradient = 0;
  EXPECT_LT(worst_output, kTolerance) << "loss " << loss;
  for (size_t i = 0; i < outputs.size(); ++i) {
    double distance = relative_distance(outputs[i], expected.at("output" + std::to_string(i)));
    EXPECT_LT(distance, kTolerance) << "output " << i;
    worst_output = std::max(worst_output, distance);
  }
  std::vector<double> norms = expected.at("norms").to_vector<double>(),
                      products = expected.at("products").to_vector<double>();
  ASSERT_EQ(parameters.size(), norms.size());
  double all = norm_of(norms);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto &[name, parameter] = parameters[i];
    std::vector<double> gradient =
        parameter.grad().defined()
            ? parameter.grad().to_vector<double>()
            : std::vector<double>(static_cast<size_t>(parameter.numel()), 0.0);
    std::vector<float> probe = numbers(name + ".gradient", parameter.numel());
    double product = 0;
    for (size_t k = 0; k < gradient.size(); ++k)
      product += gradient[k] * probe[k];
    // The product with random numbers is off by about as much as the gradient itself.
    double off = std::max(std::abs(norm_of(gradient) - norms[i]), std::abs(product - products[i]));
    EXPECT_LE(off, kTolerance * norms[i] + kOfAll * all)
        << name << ": " << norm_of(gradient) << " and " << product << ", not " << norms[i]
        << " and " << products[i];
    worst_gradient = std::max(worst_gradient, off / (norms[i] + kOfAll / kTolerance * all));
  }
  for (const auto &[name, buffer] : model.module().named_buffers())
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(buffer.item<int64_t>(), 1) << name;
    }

  model.module().eval();
  NoGrad no_grad;
  std::vector<Tensor> evaluated = model(inputs);
  eval(evaluated);
  double worst_evaluated = 0;
  for (size_t i = 0; i < evaluated.size(); ++i) {
    double distance = relative_distance(evaluated[i], expected.at("evaluated" + std::to_string(i)));
    EXPECT_LT(distance, kTolerance) << "evaluated output " << i;
    worst_evaluated = std::max(worst_evaluated, distance);
  }
  std::cout << what.name << ": output " << worst_output << ", gradient " << worst_gradient
            << ", evaluated " << worst_evaluated << "\n";
}

INSTANTIATE_TEST_SUITE_P(All, Figures, testing::Range<size_t>(0, cases().size()),
                         [](const auto &info) { return cases()[info.param].name; });

} // namespace
} // namespace weft::tests
