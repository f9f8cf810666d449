// Programs whose kernels codegen once refused: what fusing accepts now compiles as it is, and gives
// the bits of one op a kernel.
#include <functional>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "weft/weft.h"

namespace weft {
namespace {

using Tensors = std::vector<Tensor>;

class LegalKernels : public testing::Test {
protected:
  void TearDown() override {
    set_config(before_);
  }

  // What the program gives on a backend, with all kernels whole.
  std::vector<std::vector<float>> run(const char *backend,
                                      const std::function<Tensors()> &program) {
    Config now = before_;
    now.backend = backend;
    set_config(now);
    manual_seed(3);
    Tensors results = program();
    eval(results);
    for (const Evaluation &evaluation : recent_evaluations())
      for (const std::string &note : evaluation.notes)
        EXPECT_EQ(note.find("does-not-compile"), std::string::npos) << note;
    std::vector<std::vector<float>> values;
    for (const Tensor &result : results)
      values.push_back(result.to_vector<float>());
    return values;
  }
  void check(const std::function<Tensors()> &program) {
    auto fused = run("cpu", program), apart = run("cpu-unfused", program),
         expected = run("reference", program);
    EXPECT_TRUE(fused == apart);
    Config now = before_;
    now.backend = "cpu";
    set_config(now);
    tests::ThreeWays().compare(program);
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t k = 0; k < expected[i].size(); ++k)
        ASSERT_NEAR(fused[i][k], expected[i][k], 2e-4 * (1 + std::abs(expected[i][k])));
  }

private:
  Config before_ = config();
};

// Two dense layers behind a transition of DenseNet: the mean goes to concats and to norms, and is
// there in both layouts, in images and channels that fill blocks of vectors, and that do not.
TEST_F(LegalKernels, TransitionsOfDenseNet) {
  for (int64_t channels : {16, 96, 128})
    for (bool training : {false, true}) {
      SCOPED_TRACE(channels);
      Tensor image = rand({2, 8, 28, 24}).set_requires_grad(training);
      image.eval();
      check([&]() -> Tensors {
        int64_t growth = 8;
        auto norm = [&](const Tensor &x) {
          int64_t c = x.shape()[1];
          Tensor weight = rand({c}) + 0.5, bias = rand({c});
          weight.set_requires_grad(training);
          return relu(training ? batch_norm(x, Tensor(), Tensor(), weight, bias, {.training = true})
                               : batch_norm(x, rand({c}), rand({c}) + 0.5, weight, bias));
        };
        auto conv = [&](const Tensor &x, int64_t out, int64_t size) {
          return conv2d(x, (rand({out, x.shape()[1], size, size}) - 0.5) * 0.2, Tensor(),
                        {.padding = size / 2});
        };
        Tensor pooled = avg_pool2d(conv(norm(image), channels, 1), 2, {.stride = Pair(2)});
        Tensor features = pooled;
        for (int layer = 0; layer < 2; ++layer)
          features = cat({features, conv(norm(features), growth, 3)}, 1);
        Tensor y = norm(features).mean({2, 3});
        if (!training)
          return {y, pooled};
        return {y, grad({square(y).sum()}, {image})[0]};
      });
    }
}

// A sum of everything, written into a part of a tensor: all that the row has is one element there.
TEST_F(LegalKernels, WritesOfSums) {
  Tensor w = ones({6}).eval();
  check([&]() -> Tensors {
    Tensor z = zeros({6});
    z.narrow(0, 2, 1) = w.reshape({6, 1}).sum({0});
    return {z};
  });
  check([]() -> Tensors {
    Tensor w = rand({5, 7}), z = zeros({5, 4});
    z.narrow(1, 1, 1) = w.sum({1}, true);
    return {z, w};
  });
  check([]() -> Tensors {
    Tensor w = rand({5, 40});
    return {cat({w, w.sum({1}, true), exp(w) / w.sum({1}, true)}, 1)};
  });
}

// A normalised image and a part of each of its lines.
TEST_F(LegalKernels, PartsOfNormalizedImages) {
  check([]() -> Tensors {
    Tensor x = rand({1, 2, 4, 5}), weight = rand({2}), bias = rand({2});
    Tensor y = batch_norm(x, Tensor(), Tensor(), weight, bias, {.training = true});
    return {y, tanh(split(y, 3, 3)[1])};
  });
}

// The programs for all sizes that draw them want memory of that size where nothing is fused.
TEST_F(LegalKernels, FirstValuesOfParameters) {
  auto values = [&](const char *backend) {
    return run(backend, []() -> Tensors {
      nn::Linear layer(20, 30);
      return {layer.weight, layer.bias, nn::init::normal({7, 5}, 1, 2)};
    });
  };
  EXPECT_EQ(values("cpu"), values("cpu-unfused"));
}

// What a row has normalised, read from other rows: no kernel of rows.
TEST_F(LegalKernels, RowsInAnotherOrder) {
  check([]() -> Tensors {
    Tensor w = rand({5, 40}), r = w / w.sum({1}, true);
    return {r + flip(r, {0}), r * flip(r, {1})};
  });
}

} // namespace
} // namespace weft
