// Networks that meet batches of many sizes, on the backends that stand in for those whose devices a
// machine may lack: a few programs serve them all, with the bits of a program for each size.
#include <cmath>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "tests/programs/simulated.h"

namespace weft::tests {
namespace {

class SimulatedSizes : public testing::TestWithParam<std::string> {
protected:
  using Model = std::function<Tensor(const Tensor &)>;
  struct Run {
    std::vector<std::vector<float>> results;
    uint64_t compiles = 0, hits = 0;
    std::string notes;
  };

  static Tensor batch(int64_t n, const Shape &example) {
    Shape shape = {n};
    shape.insert(shape.end(), example.begin(), example.end());
    int64_t count = 1;
    for (int64_t dim : shape)
      count *= dim;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(std::sin(0.37 * double(i) + double(n))));
    return Tensor::from(values, shape).eval();
  }

  // A model that is made anew, with the same weights, on `backend` at each of the sizes, some
  // rounds.
  static Run run(const std::string &backend, bool symbolic, int rounds,
                 const std::vector<int64_t> &sizes, const Shape &example,
                 const std::function<Model()> &make) {
    Chosen chosen(backend);
    Config now = config();
    now.symbolic = symbolic;
    set_config(now);
    manual_seed(7);
    Model model = make();
    NoGrad guard;
    Run run;
    for (int round = 0; round < rounds; ++round)
      for (int64_t n : sizes) {
        Tensor x = batch(n, example);
        Statistics start = statistics();
        Tensor y = model(x).eval();
        run.compiles += statistics().compiles - start.compiles;
        run.hits += statistics().symbolic_hits - start.symbolic_hits;
        run.notes += recent_evaluations().back().to_string() + "\n";
        run.results.push_back(y.to_vector<float>());
      }
    return run;
  }

  // A loop meets each size some times, so that graphs of launches are replayed.
  void compare(const std::vector<int64_t> &sizes, uint64_t most_compiles, const Shape &example,
               const std::function<Model()> &make) {
    constexpr int kRounds = 3;
    Run many = run(GetParam(), true, kRounds, sizes, example, make),
        each = run(GetParam(), false, 1, sizes, example, make),
        host = run("cpu", false, 1, sizes, example, make);
    EXPECT_LE(many.compiles, most_compiles) << many.notes;
    EXPECT_GE(many.hits, 2 * sizes.size());
    EXPECT_EQ(each.hits, 0u);
    for (size_t i = 0; i < many.results.size(); ++i) {
      size_t size = i % sizes.size();
      EXPECT_EQ(many.results[i], each.results[size]) << sizes[size];
      ASSERT_EQ(many.results[i].size(), host.results[size].size());
      for (size_t k = 0; k < many.results[i].size(); ++k)
        ASSERT_NEAR(many.results[i][k], host.results[size][k], 1e-5) << sizes[size] << " " << k;
    }
  }
};

TEST_P(SimulatedSizes, AnMlp) {
  std::vector<int64_t> sizes = {17, 32, 5,  29, 8,  13, 31, 6,  24, 11,
                                19, 7,  26, 12, 30, 9,  21, 14, 28, 10};
  compare(sizes, 4, {20}, [] {
    nn::Sequential model(nn::Linear(20, 64), nn::GELU(), nn::Linear(64, 48), nn::ReLU(),
                         nn::LayerNorm(48), nn::Linear(48, 24));
    return [model](const Tensor &x) {
      return softmax(model(x), 1);
    };
  });
}

TEST_P(SimulatedSizes, ATransformer) {
  std::vector<int64_t> sizes = {9,  16, 4,  13, 6,  11, 15, 3,  12, 7,
                                10, 5,  14, 8,  17, 20, 18, 21, 19, 22};
  compare(sizes, 5, {6, 32}, [] {
    auto block = std::make_shared<nn::TransformerBlock>(32, 4, nn::TransformerBlockOptions{});
    auto norm = std::make_shared<nn::LayerNorm>(32);
    return [block, norm](const Tensor &x) {
      return (*norm)((*block)(x));
    };
  });
}

TEST_P(SimulatedSizes, AConvolutionalNetwork) {
  compare({7, 16, 3, 12, 5, 9, 14, 4, 8, 6}, 4, {2, 8, 8}, [] {
    auto first = std::make_shared<nn::Conv2d>(2, 4, 3, nn::Conv2dOptions{.padding = 1});
    auto second = std::make_shared<nn::Conv2d>(4, 6, 3);
    return [first, second](const Tensor &x) {
      return (*second)(relu((*first)(x)));
    };
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SimulatedSizes, testing::ValuesIn(simulated_places()),
                         place_name);

} // namespace
} // namespace weft::tests
