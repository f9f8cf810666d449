// Networks of convolutions over many batch sizes: how many programs are compiled, and that they
// compute what static ones compute.
#include <gtest/gtest.h>

#include "frontend/tests/symbolic_fixture.h"

namespace weft {
namespace {

const std::vector<int64_t> kBatches = {6, 8, 3, 7, 2, 5, 4, 8};

class SymbolicImages : public Symbolic {};

class Block : public nn::Module {
public:
  Block(int64_t from, int64_t to, int64_t stride)
      : first(child("first",
                    nn::Conv2d(from, to, 3, {.stride = stride, .padding = 1, .bias = false}))),
        second(child("second", nn::Conv2d(to, to, 3, {.padding = 1, .bias = false}))),
        shortcut(child("shortcut", nn::Conv2d(from, to, 1, {.stride = stride, .bias = false}))),
        norm1(child("norm1", nn::BatchNorm2d(to))), norm2(child("norm2", nn::BatchNorm2d(to))) {}
  Tensor operator()(const Tensor &x) {
    return relu(norm2(second(relu(norm1(first(x))))) + shortcut(x));
  }
  nn::Conv2d first, second, shortcut;
  nn::BatchNorm2d norm1, norm2;
};

class SmallResNet : public nn::Module {
public:
  SmallResNet()
      : stem(child("stem", nn::Conv2d(3, 16, 3, {.padding = 1}))),
        one(child("one", Block(16, 32, 2))), two(child("two", Block(32, 48, 2))),
        head(child("head", nn::Linear(48, 10))) {}
  Tensor operator()(const Tensor &x) {
    Tensor features = two(one(max_pool2d(relu(stem(x)), 3, {.stride = 2, .padding = 1})));
    return head(features.mean({2, 3}));
  }
  nn::Conv2d stem;
  Block one, two;
  nn::Linear head;
};

TEST_F(SymbolicImages, InferenceOfAResNet) {
  SmallResNet model;
  model.eval();
  compare({24, 32, 17, 31, 16, 20, 24, 30}, 2, [&](int64_t n) {
    NoGrad no_grad;
    return std::vector<Tensor>{model(input(n, {3, 32, 32}, 1))};
  });
}

// A training step of it: batch norms count their elements, and biases of convolutions have sums
// over all images and pixels.
TEST_F(SymbolicImages, TrainingOfAResNet) {
  SmallResNet model;
  model.train();
  std::vector<Tensor> parameters = model.parameters();
  for (const Tensor &parameter : parameters)
    parameter.eval();
  compare({24, 32, 17, 31, 20, 30}, 2, [&](int64_t n) {
    Tensor loss = nn::cross_entropy(model(input(n, {3, 16, 16}, 1)), (arange(n) * 7) % 10);
    std::vector<Tensor> outputs = grad({loss}, parameters);
    outputs.push_back(loss.detach());
    return outputs;
  });
}

// What is kept stands between the size and what is folded with it.
TEST_F(SymbolicImages, SumsOverImagesAndPixels) {
  compare({40, 64, 33, 2, 31, 100, 32}, 4, [&](int64_t n) {
    Tensor x = input(n, {5, 7, 9}, 12);
    return std::vector<Tensor>{sum(x * 1.5, {0, 2, 3}), max(x, {0, 3}), mean(x, {0, 3}),
                               sum(x.to(float64), {0, 2, 3})};
  });
}

TEST_F(SymbolicImages, NormsInTraining) {
  Tensor weight = input(12, {}, 13), bias = input(12, {}, 14);
  compare({40, 64, 33, 2, 31, 32}, 2, [&](int64_t n) {
    Tensor x = input(n, {12, 5, 7}, 15), w = weight.detach(), b = bias.detach();
    for (Tensor *leaf : {&x, &w, &b})
      leaf->set_requires_grad(true);
    Tensor mean = zeros({12}), variance = ones({12}),
           y = batch_norm(x, mean, variance, w, b, {.training = true});
    std::vector<Tensor> outputs = grad({sum(square(y) * x)}, {x, w, b});
    outputs.insert(outputs.end(), {y.detach(), mean, variance});
    return outputs;
  });
  compare({40, 64, 33, 2, 31, 32}, 2, [&](int64_t n) {
    Tensor x = input(n, {12, 5, 7}, 16), w = weight.detach(), b = bias.detach();
    for (Tensor *leaf : {&x, &w, &b})
      leaf->set_requires_grad(true);
    Tensor y = group_norm(x, 3, w, b);
    return grad({sum(square(y) * x)}, {x, w, b});
  });
}

TEST_F(SymbolicImages, MeansOfPixels) {
  compare(kBatches, 2, [&](int64_t n) {
    Tensor x = input(n, {12, 9, 11}, 2);
    return std::vector<Tensor>{x.mean({2, 3}) * 2.0, x.permute({0, 2, 3, 1}).mean({1, 2}),
                               (x * x).sum({2}), max(x, 1)};
  });
}

TEST_F(SymbolicImages, Pools) {
  compare(kBatches, 2, [&](int64_t n) {
    Tensor x = input(n, {5, 12, 14}, 3);
    return std::vector<Tensor>{max_pool2d(relu(x), 2),
                               max_pool2d(x, 3, {.stride = 2, .padding = 1}), avg_pool2d(x, 2),
                               avg_pool2d(x, 3, {.stride = 1, .padding = 1})};
  });
}

TEST_F(SymbolicImages, Convolutions) {
  Tensor weight = input(16, {8, 3, 3}, 4), grouped = input(16, {2, 3, 3}, 5),
         bias = input(16, {}, 6);
  compare(kBatches, 2, [&](int64_t n) {
    Tensor x = input(n, {8, 20, 20}, 7);
    return std::vector<Tensor>{conv2d(x, weight, bias, {.padding = 1}),
                               conv2d(x, grouped, {}, {.stride = 2, .groups = 4})};
  });
}

// The library takes it from 5 images on: which of the two computes it decides bits.
TEST_F(SymbolicImages, ConvolutionsThatTheLibraryTakesSometimes) {
  Tensor weight = input(16, {2, 3, 3}, 5);
  compare(kBatches, 4, [&](int64_t n) {
    return std::vector<Tensor>{
        conv2d(input(n, {8, 12, 12}, 7), weight, {}, {.stride = 2, .groups = 4})};
  });
  if (has_sizes())
    for (const char *range : {"s0 in [6, 8]", "s0 in [2, 4]"})
      EXPECT_NE(notes_.find(range), std::string::npos) << notes_;
}

// No library takes these. Up to a number of products they are one sum, whose order depends on it.
TEST_F(SymbolicImages, ConvolutionsOfDoublesAddUpInOneOrder) {
  Tensor weight = input(4, {4, 3, 3}, 9).to(float64).eval();
  compare({2, 3, 5, 16, 40, 2, 3, 7}, 8, [&](int64_t n) {
    return std::vector<Tensor>{
        conv2d(input(n, {4, 6, 6}, 10).to(float64).eval(), weight, {}, {.padding = 1})};
  });
  compare({5, 7, 33, 6}, 4, [&](int64_t n) {
    Tensor w = weight.detach().set_requires_grad(true);
    Tensor x = input(n, {4, 12, 12}, 11).to(float64).eval();
    return grad({square(conv2d(x, w)).sum()}, {w});
  });
}

TEST_F(SymbolicImages, GradientsOfPools) {
  compare(kBatches, 2, [&](int64_t n) {
    Tensor x = input(n, {5, 12, 14}, 8);
    x.set_requires_grad(true);
    Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1}), z = avg_pool2d(x, 2);
    return grad({(y * y).sum() + (z * z).sum()}, {x});
  });
}

} // namespace
} // namespace weft
