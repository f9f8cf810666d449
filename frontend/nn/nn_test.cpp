#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/io/safetensors.h"
#include "weft/nn/nn.h"
#include "weft/weft.h"

namespace weft::nn {
namespace {

using testing_support::error_of;

std::vector<float> floats(const Tensor &tensor) {
  return tensor.to_vector<float>();
}

void expect_near(const Tensor &a, const Tensor &b, double tolerance = 1e-5) {
  ASSERT_EQ(a.shape(), b.shape());
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}

struct Mlp : Module {
  Linear up = child("up", Linear(3, 4));
  Linear down = child("down", Linear(4, 2));
  Parameter scale = parameter("scale", ones({2}));
  Parameter seen = buffer("seen", zeros({}));
  Tensor operator()(const Tensor &x) const {
    return down(relu(up(x))) * scale;
  }
};

//===-- Module --------------------------------------------------------------------------------===//

TEST(Module, NamesInOrder) {
  Mlp mlp;
  std::vector<std::string> names;
  for (const auto &[name, tensor] : mlp.named_parameters())
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale", "up.weight", "up.bias", "down.weight",
                                             "down.bias"}));
  EXPECT_EQ(mlp.parameters().size(), 5u);
  EXPECT_EQ(mlp.parameter_count(), 2 + 12 + 4 + 8 + 2);
  ASSERT_EQ(mlp.named_buffers().size(), 1u);
  EXPECT_EQ(mlp.named_buffers()[0].first, "seen");
  EXPECT_EQ(mlp.state().size(), 6u);
  for (const Tensor &parameter : mlp.parameters())
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
  EXPECT_FALSE(mlp.seen.requires_grad());
}

TEST(Module, CopiesShareAndClonesDoNot) {
  Mlp mlp, copy = mlp;
  Mlp other = clone(mlp);
  EXPECT_TRUE(mlp.is_same(copy));
  EXPECT_FALSE(mlp.is_same(other));
  EXPECT_TRUE(mlp.up.is_same(copy.up));
  EXPECT_FALSE(mlp.up.is_same(other.up));
  Tensor x = tensor({{1.f, -2.f, 3.f}});
  expect_near(mlp(x), other(x), 0);
  {
    NoGrad no_grad;
    copy.up.weight.mul_(2.0);
    copy.scale.fill_(5.0);
  }
  EXPECT_EQ(floats(mlp.up.weight), floats(copy.up.weight));
  EXPECT_NE(floats(mlp.up.weight), floats(other.up.weight));
  EXPECT_EQ(floats(other.scale), (std::vector<float>{1, 1}));
  // What the clone's members hold is what it has registered.
  auto named = other.named_parameters();
  EXPECT_TRUE(named[0].second.is_same(other.scale));
  EXPECT_TRUE(named[1].second.is_same(other.up.weight));
  EXPECT_TRUE(other.up.weight.requires_grad());
  EXPECT_FALSE(other.seen.is_same(mlp.seen));
  other.eval();
  EXPECT_TRUE(mlp.training());
  EXPECT_FALSE(other.down.training());
}

TEST(Module, ASharedChildStaysSharedInAClone) {
  struct Tied : Module {
    Linear a = child("a", Linear(2, 2));
    Linear b = child("b", a);
  };
  Tied tied;
  EXPECT_EQ(tied.parameters().size(), 2u) << "each tensor once";
  EXPECT_EQ(tied.state().size(), 4u) << "under both names";
  Tied other = clone(tied);
  EXPECT_TRUE(other.a.is_same(other.b));
  EXPECT_TRUE(other.a.weight.is_same(other.b.weight));
  EXPECT_FALSE(other.a.weight.is_same(tied.a.weight));
}

TEST(Module, TrainingReachesAllBelow) {
  Sequential outer(Sequential(Dropout(0.5)), Linear(2, 2));
  EXPECT_TRUE(outer.training());
  outer.eval();
  EXPECT_EQ(floats(outer(ones({1, 2}))).size(), 2u);
  Dropout dropout(0.5);
  Tensor x = ones({64});
  dropout.eval();
  EXPECT_TRUE(dropout(x).is_same(x));
  dropout.train();
  std::vector<float> values = floats(dropout(x));
  EXPECT_GT(std::count(values.begin(), values.end(), 0.f), 0);
  EXPECT_EQ(std::count(values.begin(), values.end(), 0.f) +
                std::count(values.begin(), values.end(), 2.f),
            64);
}

TEST(Module, ConvertedItHasTheSameValuesInAnotherDtype) {
  struct Net : Module {
    Mlp mlp = child("mlp", Mlp());
    Parameter steps = buffer("steps", zeros({}, int64));
  };
  Net net;
  Net half = to(net, bfloat16), exact = to(net, float64);
  EXPECT_EQ(net.mlp.up.weight.dtype(), float32);
  for (const auto &[name, tensor] : half.state())
    EXPECT_EQ(tensor.dtype(), name == "steps" ? int64 : bfloat16) << name;
  EXPECT_EQ(floats(exact.mlp.up.weight), floats(net.mlp.up.weight));
  EXPECT_TRUE(half.mlp.up.weight.requires_grad());
  EXPECT_TRUE(half.named_parameters()[1].second.is_same(half.mlp.up.weight));
  Tensor x = tensor({{1.f, -2.f, 3.f}});
  EXPECT_EQ(half.mlp(x.to(bfloat16)).dtype(), bfloat16);
  expect_near(exact.mlp(x.to(float64)), net.mlp(x).to(float64));
  expect_near(half.mlp(x.to(bfloat16)).to(float32), net.mlp(x), 0.1);
}

TEST(Module, LoadsItsOwnState) {
  Mlp a, b;
  b.load_state(a.state());
  Tensor x = tensor({{1.f, -2.f, 3.f}});
  expect_near(a(x), b(x), 0);
  EXPECT_FALSE(a.up.weight.is_same(b.up.weight));
}

TEST(Module, RefusesAForeignStateAndStaysAsItWas) {
  Mlp mlp;
  std::vector<float> before = floats(mlp.up.weight);
  auto state = mlp.state();
  auto without = state;
  without.erase(without.begin() + 2);
  EXPECT_NE(error_of([&] { mlp.load_state(without); }).message().find("no tensor for 'up.weight'"),
            std::string::npos);
  auto more = state;
  more.emplace_back("extra", zeros({}));
  EXPECT_NE(error_of([&] { mlp.load_state(more); }).message().find("no 'extra'"),
            std::string::npos);
  mlp.load_state(more, false);
  auto shape = state;
  shape.back().second = zeros({7});
  Error error = error_of([&] { mlp.load_state(shape); });
  EXPECT_EQ(error.kind(), ErrorKind::kShape);
  EXPECT_NE(error.message().find("[2]"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("[7]"), std::string::npos) << error.message();
  auto dtype = state;
  dtype.back().second = zeros({2}, float64);
  EXPECT_EQ(error_of([&] { mlp.load_state(dtype); }).kind(), ErrorKind::kDType);
  auto twice = state;
  twice.push_back(state[0]);
  EXPECT_NE(error_of([&] { mlp.load_state(without, false); })
                .message()
                .find("no tensor for 'up.weight'"),
            std::string::npos)
      << "strict or not";
  auto undefined = mlp.state();
  undefined[2].second = Tensor();
  EXPECT_NE(
      error_of([&] { mlp.load_state(undefined); }).message().find("'up.weight' is given as an"),
      std::string::npos);
  EXPECT_NE(error_of([&] { mlp.load_state(twice); }).message().find("given twice"),
            std::string::npos);
  EXPECT_EQ(floats(mlp.up.weight), before);
}

TEST(Module, TensorsWithTwoNamesAreGivenOneValue) {
  struct Tied : Module {
    Linear first = child("first", Linear(2, 3)), second = child("second", first);
    Parameter scale = parameter("scale", ones({1}));
  };
  Tied a, b;
  NamedTensors state = a.state();
  for (auto &[name, tensor] : state) // as a file has it
    tensor = tensor.clone();
  b.load_state(state);
  EXPECT_EQ(floats(b.second.weight), floats(a.first.weight));
  const std::vector<float> before = floats(b.scale);
  for (auto &[name, tensor] : state)
    if (name == "second.weight" || name == "scale")
      tensor = tensor + 1;
  int line = __LINE__ + 1;
  Error error = error_of([&] { b.load_state(state); });
  EXPECT_EQ(error.kind(), ErrorKind::kValue);
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(error.message().find("'first.weight' and 'second.weight' are one tensor"),
            std::string::npos)
      << error.message();
  EXPECT_EQ(floats(b.scale), before);
}

TEST(Module, ADtypeThatWeftHasNotIsNamedWhereItIsNeeded) {
  Mlp mlp, other;
  io::SafeTensors file{.tensors = mlp.state(), .metadata = {}, .unread = {}};
  file.unread.push_back({"up.weight_scale", "F8_E4M3", {2, 3}});
  Error error = error_of([&] { other.load_state(file); });
  EXPECT_EQ(error.kind(), ErrorKind::kDType);
  EXPECT_NE(error.message().find("load_state: 'up.weight_scale' is F8_E4M3 [2, 3] in the file"),
            std::string::npos)
      << error.message();
  other.load_state(file, false);
  EXPECT_EQ(floats(other.up.weight), floats(mlp.up.weight));
  file.unread[0].name = "up.weight";
  std::erase_if(file.tensors, [](const auto &each) { return each.first == "up.weight"; });
  error = error_of([&] { other.load_state(file, false); });
  EXPECT_NE(error.message().find("load_state: 'up.weight' is F8_E4M3"), std::string::npos)
      << error.message();
}

TEST(Module, RefusesBadNames) {
  struct Bad : Module {
    explicit Bad(const std::string &name) {
      parameter("taken", zeros({1}));
      child(name, Linear(1, 1));
    }
  };
  EXPECT_NE(error_of([] { Bad(""); }).message().find("must not be empty"), std::string::npos);
  EXPECT_NE(error_of([] { Bad("a.b"); }).message().find("nor contain a dot"), std::string::npos);
  EXPECT_NE(error_of([] { Bad("taken"); }).message().find("has a 'taken' already"),
            std::string::npos);
  struct Integer : Module {
    Parameter p = parameter("p", zeros({1}, int64));
  };
  EXPECT_EQ(error_of([] { Integer(); }).kind(), ErrorKind::kDType);
}

// A model whose last layer becomes one for other classes.
TEST(Module, AChildIsReplaced) {
  struct Net : Module {
    BatchNorm1d bn = child("bn", BatchNorm1d(4));
    Linear fc = child("fc", Linear(4, 5));
    Tensor operator()(const Tensor &x) const {
      return fc(bn(x));
    }
  };
  Net net;
  Linear old = net.fc;
  net.replace_child(net.fc, Linear(4, 2));
  EXPECT_EQ(net(ones({3, 4})).shape(), (Shape{3, 2}));
  EXPECT_EQ(net.state().back().first, "fc.bias");
  EXPECT_TRUE(net.parameters().back().is_same(net.fc.bias));
  net.eval();
  EXPECT_FALSE(net.fc.training());
  EXPECT_TRUE(old.training()) << "no child any more";
  Net other = clone(net);
  EXPECT_EQ(other(ones({3, 4})).shape(), (Shape{3, 2}));
  EXPECT_TRUE(other.parameters().back().is_same(other.fc.bias));
  for (Linear &layer : std::vector<Linear>{old, Linear(1, 1)}) {
    int line = __LINE__ + 1;
    Error error = error_of([&] { net.replace_child(layer, Linear(4, 3)); });
    EXPECT_EQ(error.line(), line) << error.what();
    EXPECT_NE(error.message().find("no child of this module"), std::string::npos) << error.what();
  }
  struct Chain : Module {
    Sequential inner = child("inner", Sequential());
    Tensor operator()(const Tensor &x) const {
      return inner(x);
    }
  };
  Chain chain;
  EXPECT_NE(error_of([&] { chain.replace_child(chain.inner, Sequential(chain)); })
                .message()
                .find("'inner' contains this module"),
            std::string::npos);
  // Under both of its names.
  struct Tied : Module {
    Linear a = child("a", Linear(2, 2));
    Linear b = child("b", a);
  };
  Tied tied;
  tied.replace_child(tied.a, Linear(2, 3));
  EXPECT_EQ(tied.state().size(), 4u);
  EXPECT_EQ(tied.parameters().size(), 2u);
}

// Other than in PyTorch an assignment registers nothing. It would be lost on saving without a word.
TEST(Module, AChildThatWasAssignedOverIsAnError) {
  struct Net : Module {
    Linear fc = child("fc", Linear(4, 5));
  };
  struct Outer : Module {
    Net net = child("net", Net());
    Linear copy = net.fc;
  };
  Outer outer;
  outer.net.fc = Linear(4, 2);
  EXPECT_EQ(outer.state().size(), 2u) << "a handle to the old one is left";
  outer.copy = Linear(4, 2);
  std::vector<std::function<void()>> calls;
  calls.push_back([&] { outer.state(); });
  calls.push_back([&] { outer.load_state({}); });
  calls.push_back([&] { outer.parameters(); });
  calls.push_back([&] { outer.named_buffers(); });
  calls.push_back([&] { outer.named_modules(); });
  calls.push_back([&] { outer.train(); });
  calls.push_back([&] { outer.eval(); });
  calls.push_back([&] { outer.zero_grad(); });
  for (const auto &call : calls) {
    Error error = error_of(call);
    EXPECT_EQ(error.kind(), ErrorKind::kState);
    EXPECT_NE(error.file().find("nn_test.cpp"), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("'net.fc' was assigned over"), std::string::npos)
        << error.what();
    EXPECT_NE(error.message().find("module.replace_child(module.fc, layer)"), std::string::npos)
        << error.what();
  }
  struct Twice : Module {
    Linear fc = child("fc", Linear(4, 5));
    Twice() {
      fc = child("fc", Linear(4, 2));
    }
  };
  EXPECT_NE(error_of([] { Twice(); }).message().find("already; replace_child("), std::string::npos);
  // Who keeps a module that is assigned over as a whole has all of it.
  Net best;
  nn::Module kept = best;
  best = Net();
  EXPECT_EQ(kept.parameters().size(), 2u);
  kept.eval();
  // Handles that are given another module in passing change nothing.
  Net net, whole;
  Linear passing = net.fc;
  passing = Linear(1, 1);
  std::swap(net.fc, whole.fc);
  std::swap(net.fc, whole.fc);
  whole = net;
  EXPECT_EQ(net.state().size(), 2u);
  EXPECT_EQ(whole.state().size(), 2u);
}

TEST(Module, ListsAndPrintsWhatIsBelow) {
  struct Net : Module {
    Sequential body = child("body", Sequential(Linear(2, 3), weft::relu, LayerNorm(Shape{3})));
    Linear head = child("head", Linear(3, 1, {.bias = false}));
    Linear same = child("same", head);
    Parameter scale = parameter("scale", ones({1}));
    Tensor operator()(const Tensor &x) const {
      return head(body(x)) * scale;
    }
  };
  Net net;
  std::vector<std::string> names, classes;
  for (const auto &[name, module] : net.named_modules()) {
    names.push_back(name);
    classes.push_back(module.class_name());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"", "body", "body.0", "body.2", "head"}));
  EXPECT_EQ(classes, (std::vector<std::string>{"", "Sequential", "Linear", "LayerNorm", "Linear"}));
  EXPECT_EQ(net.modules().size(), 5u);
  ASSERT_EQ(net.children().size(), 2u);
  EXPECT_TRUE(net.children()[1].is_same(net.head));
  EXPECT_EQ(net.named_children()[0].first, "body");
  for (auto &[name, module] : net.named_modules())
    if (module.class_name() == "Linear")
      for (auto &[which, tensor] : module.named_parameters())
        which == "bias" ? init::zeros_(tensor) : init::constant_(tensor, 2);
  EXPECT_EQ(floats(net.head.weight), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(floats(net.children()[0].parameters()[1]), (std::vector<float>{0, 0, 0}));
  std::ostringstream text;
  text << net;
  EXPECT_EQ(text.str(), "Net(\n"
                        "  scale: [1]\n"
                        "  (body): Sequential(\n"
                        "    (0): Linear(weight: [3, 2], bias: [3])\n"
                        "    (2): LayerNorm(weight: [3], bias: [3])\n"
                        "  )\n"
                        "  (head): Linear(weight: [1, 3])\n"
                        "  (same): Linear(weight: [1, 3])\n"
                        ")");
  text.str("");
  text << net.children()[1] << clone(net).head << Linear(1, 1);
  EXPECT_EQ(text.str(), "Linear(weight: [1, 3])Linear(weight: [1, 3])"
                        "Linear(weight: [1, 1], bias: [1])");
  Module deep = Sequential(Linear(1, 1));
  for (int i = 0; i < 500; ++i) {
    struct Outer : Module {
      explicit Outer(const Module &inner) {
        child("inner", inner);
      }
    };
    deep = Outer(deep);
  }
  text << deep;
  EXPECT_EQ(deep.modules().size(), 502u);
}

TEST(Module, ADeepTreeNeedsNoStack) {
  Sequential module(Linear(1, 1));
  for (int i = 0; i < 2000; ++i)
    module = Sequential(module);
  EXPECT_EQ(module.parameters().size(), 2u);
  module.eval();
  EXPECT_FALSE(module.training());
}

//===-- Layers --------------------------------------------------------------------------------===//

TEST(Linear, ValuesAndInitialRange) {
  Linear linear(2, 3);
  {
    NoGrad no_grad;
    linear.weight.copy_(tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}));
    linear.bias.copy_(tensor({0.5f, 0.f, -1.f}));
  }
  expect_near(linear(tensor({{1.f, -1.f}})), tensor({{-0.5f, -1.f, -2.f}}));
  EXPECT_EQ(linear(zeros({4, 5, 2})).shape(), (Shape{4, 5, 3}));
  EXPECT_FALSE(Linear(2, 3, {.bias = false}).bias.defined());
  manual_seed(1);
  Linear large(64, 200);
  double bound = 1.0 / 8, squares = 0;
  for (float value : floats(large.weight)) {
    EXPECT_LE(std::abs(value), bound);
    squares += value * value;
  }
  EXPECT_NEAR(squares / (64 * 200), bound * bound / 3, 0.05 * bound * bound / 3) << "uniform";
  double largest = 0;
  for (float value : floats(large.bias))
    largest = std::max<double>(largest, std::abs(value));
  EXPECT_TRUE(largest <= bound && largest > 0.9 * bound) << largest;
  manual_seed(1);
  EXPECT_EQ(floats(Linear(64, 200).weight), floats(large.weight)) << "the seed decides";
}

TEST(Linear, AnErrorPointsToTheLineThatCalledIt) {
  Linear linear(2, 3);
  TransformerBlock block(8, 2);
  int line = 0;
  Error error = error_of([&] {
    line = __LINE__ + 1;
    linear(zeros({4, 5}));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kShape);
  EXPECT_EQ(error.line(), line);
  EXPECT_NE(error.file().find("nn_test.cpp"), std::string::npos) << error.what();
  error = error_of([&] {
    line = __LINE__ + 1;
    block(zeros({2, 3, 9}));
  });
  EXPECT_EQ(error.line(), line) << error.what();
  EXPECT_NE(error.file().find("nn_test.cpp"), std::string::npos) << error.what();
}

TEST(Embedding, RowsOfTheTable) {
  manual_seed(2);
  Embedding embedding(50, 40, {.deviation = 0.5});
  std::vector<float> table = floats(embedding.weight);
  double squares = 0;
  for (float value : table)
    squares += value * value;
  EXPECT_NEAR(squares / 2000, 0.25, 0.03);
  Tensor rows = embedding(tensor<int64_t>({{3, 3}, {49, 0}}));
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 40}));
  std::vector<float> values = floats(rows);
  EXPECT_TRUE(std::equal(values.begin() + 80, values.begin() + 120, table.begin() + 49 * 40));
}

TEST(LayerNorm, NormalizesAndScales) {
  LayerNorm norm(4);
  Tensor y = norm(tensor({{1.f, 2.f, 3.f, 4.f}, {10.f, 10.f, 10.f, 10.f}}));
  float a = 1.5f / std::sqrt(1.25f + 1e-5f), b = 0.5f / std::sqrt(1.25f + 1e-5f);
  expect_near(y, tensor({{-a, -b, b, a}, {0.f, 0.f, 0.f, 0.f}}));
  EXPECT_EQ(norm.parameters().size(), 2u);
  EXPECT_EQ(LayerNorm(4, {.affine = false}).parameters().size(), 0u);
  EXPECT_EQ(LayerNorm(Shape{2, 4})(zeros({3, 2, 4})).shape(), (Shape{3, 2, 4}));
}

TEST(Dropout, RefusesABadRate) {
  EXPECT_NE(error_of([] { Dropout(1.1); }).message().find("from 0 to 1"), std::string::npos);
  EXPECT_NE(error_of([] { Dropout(-0.1); }).message().find("from 0 to 1"), std::string::npos);
}

TEST(Dropout, OfRateOneGivesZeros) {
  Dropout all(1.0);
  Tensor x = ones({8}).set_requires_grad();
  Tensor y = all(x);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(8));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(8));
}

// The definition, head by head, in float64 on the host.
std::vector<double> attention_by_hand(MultiHeadAttention &m, const Tensor &x, int64_t heads,
                                      bool causal) {
  int64_t t = x.size(0), d = x.size(1), h = d / heads;
  auto project = [&](const Linear &linear, const std::vector<double> &in) {
    std::vector<double> w = linear.weight.to_vector<double>(), b = linear.bias.to_vector<double>(),
                        out(t * d);
    for (int64_t i = 0; i < t; ++i)
      for (int64_t o = 0; o < d; ++o) {
        out[i * d + o] = b[o];
        for (int64_t k = 0; k < d; ++k)
          out[i * d + o] += in[i * d + k] * w[o * d + k];
      }
    return out;
  };
  std::vector<double> in = x.to_vector<double>(), q = project(m.q_proj, in),
                      k = project(m.k_proj, in), v = project(m.v_proj, in);
  std::vector<double> attended(t * d, 0.0);
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = 0; i < t; ++i) {
      int64_t seen = causal ? i + 1 : t;
      std::vector<double> weights(seen);
      double sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double dot = 0;
        for (int64_t c = head * h; c < (head + 1) * h; ++c)
          dot += q[i * d + c] * k[j * d + c];
        sum += weights[j] = std::exp(dot / std::sqrt(static_cast<double>(h)));
      }
      for (int64_t j = 0; j < seen; ++j)
        for (int64_t c = head * h; c < (head + 1) * h; ++c)
          attended[i * d + c] += weights[j] / sum * v[j * d + c];
    }
  return project(m.out_proj, attended);
}

TEST(MultiHeadAttention, IsItsDefinition) {
  manual_seed(3);
  Tensor x = randn({5, 8});
  for (bool causal : {false, true}) {
    MultiHeadAttention attention(8, 2, {.causal = causal});
    std::vector<double> expected = attention_by_hand(attention, x, 2, causal);
    std::vector<double> actual = attention(x).to_vector<double>();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-5) << causal << " " << i;
    // A batch is its members.
    Tensor batch = attention(stack({x, x * 2}));
    expect_near(batch.select(0, 0), attention(x), 1e-5);
    expect_near(batch.select(0, 1), attention(x * 2), 1e-5);
    // A mask that hides what causality hides.
    MultiHeadAttention masked = attention;
    Tensor mask = tril(ones({5, 5})) > 0.5;
    if (causal)
      expect_near(masked(x, mask), attention(x), 1e-6);
  }
}

// Heads of keys that serve several heads of queries are as copies, and so are leading dims that
// broadcast.
TEST(Attention, SharesKeysAsIfCopied) {
  manual_seed(5);
  auto parameters = [](std::vector<Shape> shapes) {
    std::vector<Tensor> made;
    for (const Shape &shape : shapes) {
      made.push_back(randn(shape).eval());
      made.back().set_requires_grad();
    }
    return made;
  };
  auto expect_same = [](const std::vector<Tensor> &operands, const Tensor &result,
                        const Tensor &expected) {
    expect_near(result, expected, 1e-6);
    std::vector<Tensor> gradients = grad({result.sin().sum()}, operands),
                        of_copies = grad({expected.sin().sum()}, operands);
    for (size_t i = 0; i < operands.size(); ++i)
      expect_near(gradients[i], of_copies[i], 1e-5);
  };
  for (int64_t queries : {1, 40})
    for (bool causal : {false, true}) {
      AttentionOptions options{.causal = causal, .scale = {}, .grouped = true}, plain = options;
      plain.grouped = false;
      std::vector<Tensor> x = parameters({{2, 6, queries, 8}, {2, 2, 45, 8}, {2, 3, 45, 16}});
      expect_same(x, attention(x[0], x[1], x[2], Tensor(), options),
                  attention(x[0], x[1].repeat_interleave(3, 1), x[2].repeat_interleave(2, 1),
                            Tensor(), plain));
      // One set of keys for a batch, values without any leading dim, queries of one head.
      x = parameters({{3, 1, queries, 8}, {1, 2, 45, 8}, {45, 16}});
      expect_same(x, attention(x[0], x[1], x[2], Tensor(), plain),
                  attention(x[0].expand({3, 2, queries, 8}).clone(),
                            x[1].expand({3, 2, 45, 8}).clone(),
                            x[2].expand({3, 2, 45, 16}).clone(), Tensor(), plain));
    }
}

TEST(MultiHeadAttention, StartsAsPyTorchsAndRefusesBadSizes) {
  manual_seed(4);
  MultiHeadAttention attention(32, 4);
  double bound = std::sqrt(6.0 / (4 * 32)), largest = 0;
  for (const Linear &linear : {attention.q_proj, attention.k_proj, attention.v_proj})
    for (float value : floats(linear.weight))
      largest = std::max<double>(largest, std::abs(value));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.98 * bound);
  for (const Linear &linear : {attention.q_proj, attention.out_proj})
    for (float value : floats(linear.bias))
      EXPECT_EQ(value, 0);
  EXPECT_EQ(attention.parameters().size(), 8u);
  EXPECT_EQ(MultiHeadAttention(32, 4, {.bias = false}).parameters().size(), 4u);
  EXPECT_NE(error_of([] { MultiHeadAttention(10, 3); }).message().find("10 and 3"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { attention(zeros({2, 31})); }).kind(), ErrorKind::kShape);
}

TEST(TransformerBlock, IsCausalAndCloneIsIndependent) {
  manual_seed(5);
  TransformerBlock block(16, 4, {.dropout = 0.1, .causal = true});
  block.eval();
  Tensor x = randn({6, 16}), y = x.clone();
  y[5] = randn({16});
  Tensor a = block(x), b = block(y);
  expect_near(a.narrow(0, 0, 5), b.narrow(0, 0, 5), 1e-6);
  EXPECT_NE(floats(a[5]), floats(b[5]));
  TransformerBlock other = clone(block);
  {
    NoGrad no_grad;
    for (Tensor &parameter : other.parameters())
      parameter.zero_();
  }
  expect_near(block(x), a, 0);
  expect_near(other(x), x, 0); // all branches are 0
  EXPECT_EQ(block.parameters().size(), 2u + 8 + 2 + 2 + 2);
}

static Tensor twice(const Tensor &x) {
  return x * 2;
}

// Those of ops.h, which take their caller's line.
TEST(Sequential, TakesFunctionsByName) {
  Sequential model(Linear(2, 2), weft::relu, &weft::tanh);
  Tensor x = tensor({{1.f, -2.f}});
  const Linear &first = static_cast<const Linear &>(*model.layers()[0].module());
  expect_near(model(x), weft::tanh(weft::relu(first(x))), 0);
  Sequential wrong(weft::relu, weft::logical_not, weft::sigmoid, weft::bitwise_not);
  int line = __LINE__ + 1;
  Error error = error_of([&] { wrong(x); });
  EXPECT_EQ(error.line(), line) << error.what();
  EXPECT_NE(error.message().find("bitwise_not"), std::string::npos) << error.what();
}

TEST(Sequential, TakesPlainFunctions) {
  Sequential model(twice);
  model.append(twice);
  EXPECT_EQ(model(ones({1})).item<float>(), 4);
}

TEST(Sequential, ModulesAndFunctions) {
  manual_seed(6);
  Linear first(2, 3), last(3, 1);
  Sequential model(first, [](const Tensor &x) { return tanh(x); }, ReLU(), last);
  EXPECT_EQ(model.size(), 4u);
  Tensor x = randn({5, 2});
  expect_near(model(x), last(relu(tanh(first(x)))), 1e-6);
  std::vector<std::string> names;
  for (const auto &[name, tensor] : model.named_parameters())
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias"}));
  Sequential other = clone(model);
  expect_near(other(x), model(x), 0);
  {
    NoGrad no_grad;
    for (Tensor &parameter : other.parameters())
      parameter.zero_();
  }
  expect_near(other(x), zeros({5, 1}), 0);
  EXPECT_NE(floats(model(x)), floats(other(x)));
}

TEST(ModuleList, NumbersItsModules) {
  manual_seed(7);
  struct Net : Module {
    ModuleList<Linear> layers = child("layers", ModuleList<Linear>());
    explicit Net(int64_t depth) {
      for (int64_t i = 0; i < depth; ++i)
        layers.append(Linear(2, 2));
    }
    Tensor operator()(Tensor x) const {
      for (const Linear &layer : layers)
        x = tanh(layer(x));
      return x;
    }
  } net(2);
  std::vector<std::string> names;
  for (const auto &[name, tensor] : net.named_parameters())
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                             "layers.1.bias"}));
  Tensor x = randn({3, 2});
  expect_near(net(x), tanh(net.layers[-1](tanh(net.layers[0](x)))), 1e-6);
  Net other = clone(net);
  expect_near(other(x), net(x), 0);
  EXPECT_FALSE(other.layers[1].is_same(net.layers[1]));
  {
    NoGrad no_grad;
    for (Tensor &parameter : other.parameters())
      parameter.zero_();
  }
  expect_near(other(x), zeros({3, 2}), 0);
  EXPECT_NE(floats(net(x)), floats(other(x)));
  EXPECT_EQ(ModuleList<Linear>({Linear(1, 2), Linear(2, 1)}).size(), 2u);
  Error error = error_of([&] { net.layers[2]; });
  EXPECT_EQ(error.line(), __LINE__ - 1);
  EXPECT_EQ(error.message(), "ModuleList: there is no module 2 of 2");
}

TEST(Losses, ByHand) {
  Tensor logits = tensor({{0.f, 0.f}, {2.f, 0.f}, {1.f, 1.f}}),
         targets = tensor<int64_t>({0, 1, -100});
  double a = std::log(2.0), b = std::log(1 + std::exp(2.0));
  EXPECT_NEAR(cross_entropy(logits, targets).item<float>(), (a + b) / 2, 1e-6);
  EXPECT_NEAR(cross_entropy(logits, targets, Reduction::kSum).item<float>(), a + b, 1e-6);
  std::vector<float> each = floats(cross_entropy(logits, targets, Reduction::kNone));
  EXPECT_NEAR(each[1], b, 1e-6);
  EXPECT_EQ(each[2], 0);
  Tensor shares = tensor({{1.f, 0.f}, {.25f, .75f}, {0.f, 1.f}}); // of each class
  double middle = std::log(1 + std::exp(2.0)) - .5;
  EXPECT_NEAR(cross_entropy(logits, shares).item<float>(), (2 * a + middle) / 3, 1e-6);
  EXPECT_NEAR(mse(tensor({1.f, 2.f}), tensor({3.f, 5.f})).item<float>(), 6.5, 1e-6);
  EXPECT_NEAR(mse(tensor({1.f, 2.f}), tensor({3.f, 5.f}), Reduction::kSum).item<float>(), 13, 1e-6);
}

TEST(Init, FansAndBounds) {
  EXPECT_EQ(init::fans({3, 4, 5, 5}).in, 100);
  EXPECT_EQ(init::fans({3, 4, 5, 5}).out, 75);
  EXPECT_EQ(error_of([] { init::fans({3}); }).kind(), ErrorKind::kShape);
  // 200 numbers come near both ends.
  manual_seed(5);
  auto expect_fills = [](const Tensor &x, double low, double high) {
    std::vector<float> values = floats(x);
    auto [least, most] = std::minmax_element(values.begin(), values.end());
    double tenth = (high - low) / 10;
    EXPECT_TRUE(*least >= low && *least < low + tenth) << *least << " for " << low;
    EXPECT_TRUE(*most <= high && *most > high - tenth) << *most << " for " << high;
  };
  auto expect_bound = [&](const Tensor &x, double bound) {
    expect_fills(x, -bound, bound);
  };
  expect_bound(init::xavier_uniform({10, 20}), std::sqrt(6.0 / 30));
  expect_bound(init::kaiming_uniform({10, 20}), std::sqrt(6.0 / 20));
  expect_bound(init::kaiming_uniform({10, 20}, 0, init::Fan::kOut), std::sqrt(6.0 / 10));
  expect_fills(init::uniform({10, 20}, 0.5, 0.75), 0.5, 0.75);
}

TEST(Init, Distributions) {
  // Sums over 20,000 samples: five deviations of the mean and of the variance are below 4 % and 5
  // %.
  auto check = [](const Tensor &x, double mean, double deviation, const char *what) {
    double sum = 0, squares = 0;
    std::vector<float> values = floats(x);
    for (float value : values)
      sum += value, squares += (value - mean) * (value - mean);
    double n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, mean, 0.04 * deviation) << what;
    EXPECT_NEAR(squares / n, deviation * deviation, 0.05 * deviation * deviation) << what;
  };
  manual_seed(5);
  check(init::normal({100, 200}, 1, 0.5), 1, 0.5, "normal");
  check(init::xavier_normal({100, 200}), 0, std::sqrt(2.0 / 300), "xavier_normal");
  check(init::kaiming_normal({100, 200}), 0, std::sqrt(2.0 / 200), "kaiming_normal");
  check(init::kaiming_normal({100, 200}, 0, init::Fan::kOut), 0, std::sqrt(2.0 / 100),
        "kaiming_normal, backward");
  // A normal cut at two deviations has the variance 1 - 4 phi(2) / (2 Phi(2) - 1).
  Tensor truncated = init::truncated_normal({100, 200}, 3, 0.5, 2, 4);
  check(truncated, 3, 0.5 * std::sqrt(1 - 4 * 0.05399096651318806 / 0.9544997361036416),
        "truncated_normal");
  for (float value : floats(truncated))
    EXPECT_TRUE(value >= 2 && value <= 4);
  // Far in the tail, where only the tail is left.
  for (float value : floats(init::truncated_normal({100}, 0, 1, 6, 7)))
    EXPECT_TRUE(value >= 6 && value <= 7) << value;
  EXPECT_EQ(error_of([] { init::truncated_normal({2}, 0, 1, 2, 1); }).kind(), ErrorKind::kValue);
}

TEST(Init, WritesIntoParameters) {
  manual_seed(8);
  Linear layer(20, 10);
  Tensor held = layer.weight;
  std::vector<float> before = floats(held);
  EXPECT_TRUE(init::uniform_(layer.weight, 0.5, 0.75).is_same(held));
  EXPECT_TRUE(layer.weight.requires_grad() && layer.weight.is_leaf());
  for (float value : floats(held))
    EXPECT_TRUE(value >= 0.5f && value < 0.75f) << value;
  init::normal_(layer.weight[1], 0, 0);
  EXPECT_EQ(floats(held[1]), std::vector<float>(20, 0));
  EXPECT_GE(held[0][0].item<float>(), 0.5f);
  // The samples are those of the functions without the underscore, and draw as many.
  Tensor half = zeros({6}, float16);
  manual_seed(9);
  std::vector<float> samples = floats(init::normal_(half, 1, 2)), next = floats(rand({2}));
  manual_seed(9);
  EXPECT_EQ(floats(normal({6}, 1, 2, float16)), samples);
  EXPECT_EQ(floats(rand({2})), next);
  // They are in memory: the first step of a loop is the program of all others.
  layer(ones({1, 20})).sum().backward();
  uint64_t evaluations = statistics().evaluations;
  Linear fresh(3, 4);
  init::normal_(fresh.weight);
  init::uniform_(fresh.bias, -1, 1);
  synchronize();
  evaluations = statistics().evaluations;
  fresh.weight.data<float>();
  EXPECT_EQ(statistics().evaluations, evaluations);
  Error error = error_of([&] { init::uniform_(half, 3, 1); });
  EXPECT_EQ(error.line(), __LINE__ - 1);
  EXPECT_EQ(error.kind(), ErrorKind::kValue);
  EXPECT_NE(error.message().find("uniform_: low is 3"), std::string::npos);
  error = error_of([] { init::normal_(zeros({2}, int64)); });
  EXPECT_NE(error.message().find("normal_: samples are floating-point numbers, not int64"),
            std::string::npos);
}

// Each as the function without the underscore, in the tensor's dtype.
TEST(Init, WritesWhatTheFunctionsGive) {
  Tensor weight = zeros({6, 4}).set_requires_grad(), half = zeros({6, 4}, float16);
  const Shape &shape = weight.shape();
  auto expect_same = [&](std::function<Tensor(Tensor)> write, std::function<Tensor()> make) {
    for (Tensor x : {weight, half}) {
      manual_seed(4);
      EXPECT_TRUE(write(x).is_same(x));
      manual_seed(4);
      DTypeScope scope(x.dtype());
      EXPECT_EQ(floats(x), floats(make()));
    }
    EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
  };
  expect_same([](Tensor x) { return init::constant_(x, 2.5); },
              [&] { return init::constant(shape, 2.5); });
  expect_same([](Tensor x) { return init::zeros_(x); }, [&] { return init::constant(shape, 0); });
  expect_same([](Tensor x) { return init::ones_(x); }, [&] { return init::constant(shape, 1); });
  expect_same([](Tensor x) { return init::truncated_normal_(x, 0, 2, -1, 3); },
              [&] { return init::truncated_normal(shape, 0, 2, -1, 3); });
  expect_same([](Tensor x) { return init::xavier_uniform_(x, 2); },
              [&] { return init::xavier_uniform(shape, 2); });
  expect_same([](Tensor x) { return init::xavier_normal_(x); },
              [&] { return init::xavier_normal(shape); });
  expect_same([](Tensor x) { return init::kaiming_uniform_(x, 0.5); },
              [&] { return init::kaiming_uniform(shape, 0.5); });
  expect_same([](Tensor x) { return init::kaiming_normal_(x, 0, init::Fan::kOut); },
              [&] { return init::kaiming_normal(shape, 0, init::Fan::kOut); });
  expect_same([](Tensor x) { return init::orthogonal_(x, 3); },
              [&] { return init::orthogonal(shape, 3); });

  Error error = error_of([] { init::xavier_uniform_(zeros({2, 2}, int64)); });
  EXPECT_EQ(error.line(), __LINE__ - 1);
  EXPECT_NE(error.message().find("xavier_uniform_: samples are floating-point numbers, not int64"),
            std::string::npos);
  error = error_of([] { init::xavier_normal_(ones({2})); });
  EXPECT_EQ(error.line(), __LINE__ - 1);
  EXPECT_NE(error.message().find("at least 2 dimensions"), std::string::npos);
  error = error_of([] { init::constant_(zeros({2}, int8), 1000); });
  EXPECT_EQ(error.line(), __LINE__ - 1);
  EXPECT_NE(error.message().find("constant_: "), std::string::npos) << error.what();
}

TEST(Init, OrthogonalRowsOrColumns) {
  for (const Shape &shape : {Shape{6, 4}, Shape{4, 6}, Shape{4, 3, 2}}) {
    Tensor x = init::orthogonal(shape, 2).reshape({shape[0], -1});
    Tensor square =
        shape[0] >= x.size(1) ? matmul(x.transpose(0, 1), x) : matmul(x, x.transpose(0, 1));
    std::vector<float> values = floats(square), expected = floats(eye(square.size(0)) * 4.0);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], expected[i], 1e-5);
  }
  EXPECT_EQ(error_of([] { init::orthogonal({3}); }).kind(), ErrorKind::kShape);
}

} // namespace
} // namespace weft::nn
