// One case of a golden file: its result, and the derivatives of sum(weight * result) by its
// floating inputs.
#pragma once

#include <functional>

#include "tests/golden/golden_file.h"
#include "weft/nn/nn.h"

namespace weft::golden {

using Inputs = std::vector<Tensor>;
// What computes a case: found by the longest prefix of its name.
using CaseFunctions = std::vector<
    std::pair<std::string, std::function<Tensor(const std::string &name, const Inputs &)>>>;

inline Tensor input(const Inputs &inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : Tensor();
}

inline Reduction reduction_of(const std::string &name) {
  if (name.ends_with("_sum"))
    return Reduction::kSum;
  if (name.ends_with("_none"))
    return Reduction::kNone;
  return Reduction::kMean;
}

inline void check_case(const GoldenFile &file, const std::string &name,
                       const CaseFunctions &functions) {
  const CaseFunctions::value_type::second_type *function = nullptr;
  size_t longest = 0;
  for (const auto &[prefix, candidate] : functions)
    if (name.starts_with(prefix) && prefix.size() > longest) {
      function = &candidate;
      longest = prefix.size();
    }
  ASSERT_NE(function, nullptr) << "nothing computes the case " << name;

  Inputs inputs, leaves;
  std::vector<std::string> wanted;
  Tensor expected, weight;
  for (auto &[key, tensor] : file.under(name)) {
    if (key == "out")
      expected = tensor;
    else if (key == "weight")
      weight = tensor;
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
  EXPECT_LT(relative_distance(result, expected), 2e-6) << "\n"
                                                       << result << "\nexpected\n"
                                                       << expected;
  std::vector<Tensor> gradients = grad({(result * weight).sum()}, leaves, {.allow_unused = true});
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Tensor &golden = file[name + ".grad." + wanted[i]];
    Tensor gradient = gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]);
    EXPECT_LT(relative_distance(gradient, golden), 5e-6) << "by " << wanted[i] << "\n"
                                                         << gradient << "\nexpected\n"
                                                         << golden;
  }
}

} // namespace weft::golden
