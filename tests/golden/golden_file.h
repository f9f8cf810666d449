// What make_golden.py wrote: tensors by name, grouped into cases.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "weft/io/safetensors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft::golden {

class GoldenFile {
public:
  explicit GoldenFile(const std::string &name) {
    for (auto &[key, tensor] : io::load_safetensors("tests/golden/data/" + name).tensors) {
      order_.push_back(key);
      tensors_.emplace(key, tensor);
    }
  }

  bool has(const std::string &key) const {
    return tensors_.count(key) != 0;
  }
  const Tensor &operator[](const std::string &key) const {
    auto found = tensors_.find(key);
    if (found == tensors_.end())
      throw std::out_of_range("the golden file has no tensor " + key);
    return found->second;
  }
  // What stands before the first dot of each name.
  std::vector<std::string> cases() const {
    std::vector<std::string> names;
    for (const std::string &key : order_)
      if (std::string name = key.substr(0, key.find('.')); names.empty() || names.back() != name)
        names.push_back(name);
    return names;
  }
  // The tensors named <prefix>.<rest>, by rest, in the file's order.
  std::vector<std::pair<std::string, Tensor>> under(const std::string &prefix) const {
    std::vector<std::pair<std::string, Tensor>> found;
    for (const std::string &key : order_)
      if (key.starts_with(prefix + "."))
        found.emplace_back(key.substr(prefix.size() + 1), tensors_.at(key));
    return found;
  }

private:
  std::map<std::string, Tensor> tensors_;
  std::vector<std::string> order_;
};

// |actual - expected| / |expected| in the Euclidean norm, which is taken as 1 where it is 0. Where
// one is infinite or NaN the other must be the same there, or the distance is infinite.
inline double relative_distance(const Tensor &actual, const Tensor &expected) {
  if (actual.shape() != expected.shape())
    return INFINITY;
  std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(e[i]) && std::isfinite(a[i])) {
      difference += (a[i] - e[i]) * (a[i] - e[i]);
      size += e[i] * e[i];
    } else if (!(a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])))) {
      return INFINITY;
    }
  }
  return std::sqrt(difference) / (size > 0 ? std::sqrt(size) : 1);
}

// results: by key, against get(key); and the derivatives of their sum, each times
// get("weight." + key), by the leaves, against get("grad." + a leaf's key).
template <typename Results, typename Get>
void expect_results_and_gradients(const Results &results,
                                  const std::map<std::string, Tensor> &leaves, const Get &get) {
  Tensor sum;
  for (const auto &[key, result] : results) {
    Tensor expected = get(key);
    ASSERT_TRUE(expected.defined()) << key;
    EXPECT_LT(relative_distance(result, expected), 2e-6) << key << "\n"
                                                         << result << "\nexpected\n"
                                                         << expected;
    Tensor term = (result * get("weight." + key)).sum();
    sum = sum.defined() ? sum + term : term;
  }
  std::vector<Tensor> by;
  for (const auto &[key, leaf] : leaves)
    by.push_back(leaf);
  std::vector<Tensor> gradients = grad({sum}, by);
  size_t i = 0;
  for (const auto &[key, leaf] : leaves) {
    Tensor expected = get("grad." + key);
    EXPECT_LT(relative_distance(gradients[i], expected), 5e-6) << "by " << key << "\n"
                                                               << gradients[i] << "\nexpected\n"
                                                               << expected;
    ++i;
  }
}

} // namespace weft::golden
