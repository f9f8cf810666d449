// weft::Program::differentiate gives what grad() gives: where a function detaches, leaves history
// out, or has a derivative of its own, the program says so.
#include <cmath>
#include <functional>
#include <limits>

#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
using Function = std::function<Tensor(const Tensor &)>;

struct Case {
  const char *name;
  Tensor x;
  Function function;
};

// The same number of a tensor, that a gradient tells each element of.
Tensor weighed(const Tensor &y) {
  return (y * (arange(y.numel(), DType::kFloat32).reshape(y.shape()) + 1.0)).sum();
}

Floats by_backward(const Function &function, const Tensor &at) {
  Tensor x = at.clone();
  x.set_requires_grad(true);
  Tensor result = weighed(function(x)) + x.sum() * 0.0; // depends on x whatever the function does
  return grad({result}, {x})[0].to_vector<float>();
}

Program traced(const Function &function, const Tensor &at) {
  return trace([&](const Tensor &x) { return weighed(function(x)); }, {at});
}

// Of the program, of the one that a file holds, and with its value unchanged.
Floats by_program(const Function &function, const Tensor &at) {
  Program program = traced(function, at);
  std::vector<Tensor> results = program.differentiate().run({at});
  EXPECT_EQ(results[0].item<float>(), weighed(function(at)).item<float>());
  Program again = Program::parse(program.to_string());
  EXPECT_EQ(again.differentiate().run({at})[1].to_vector<float>(), results[1].to_vector<float>());
  return results[1].to_vector<float>();
}

void expect_alike(const std::vector<Case> &cases) {
  for (const Case &c : cases) {
    SCOPED_TRACE(c.name);
    Floats expected = by_backward(c.function, c.x), found = by_program(c.function, c.x);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      if (!(std::isnan(found[i]) && std::isnan(expected[i])))
        EXPECT_NEAR(found[i], expected[i], 1e-5 * std::max(1.f, std::abs(expected[i]))) << i;
  }
}

Tensor some() {
  return tensor({-2.f, -1.f, 0.f, .5f, 1.f, 3.f});
}

TEST(ProgramDerivative, StopsWhereTheFunctionStops) {
  expect_alike({
      {"detach", some(), [](const Tensor &x) { return x.detach() * x; }},
      {"all detached", some(), [](const Tensor &x) { return x.detach() * 2.0; }},
      {"a part", some(),
       [](const Tensor &x) { return x.detach().slice(0, 0, 3) * x.slice(0, 3, 6); }},
      {"of a part", some(),
       [](const Tensor &x) { return x.slice(0, 0, 3).detach() * x.slice(0, 3, 6); }},
      {"computed, then detached", some(), [](const Tensor &x) { return (x * x).detach() * x; }},
      {"both", some(),
       [](const Tensor &x) {
         Tensor y = x * x;
         return y.detach() * x + y;
       }},
      {"straight through", some(), [](const Tensor &x) { return x + (round(x) - x).detach(); }},
      {"without history", some(),
       [](const Tensor &x) {
         Tensor scale;
         {
           NoGrad no_grad;
           scale = x * x + 1.0;
         }
         return x / scale + scale;
       }},
      {"a view without history", some(),
       [](const Tensor &x) {
         Tensor half;
         {
           NoGrad no_grad;
           half = x.slice(0, 0, 3);
         }
         return half * x.slice(0, 3, 6);
       }},
      {"history within none", some(),
       [](const Tensor &x) {
         NoGrad no_grad;
         Tensor constant = x * 3.0;
         EnableGrad enabled;
         return x * x * constant;
       }},
      {"written after detach", some(),
       [](const Tensor &x) {
         Tensor y = x * 2.0, z = y.detach();
         z *= 3.0;
         return z * x + y.detach();
       }},
      {"a copy without history", some(),
       [](const Tensor &x) {
         NoGrad no_grad;
         Tensor t = x.clone(), u = zeros({6});
         u.copy_(x);
         EnableGrad enabled;
         return x * t + x * u;
       }},
      {"detach_", some(),
       [](const Tensor &x) {
         Tensor y = x * 2.0;
         y.detach_();
         return y * x;
       }},
      {"written through what was detached", some(),
       [](const Tensor &x) {
         Tensor y = x * 2.0, z = y.detach();
         z.mul_(x);
         return z * x;
       }},
      {"detached, then written", some(),
       [](const Tensor &x) {
         Tensor y = x * 2.0, z = y.detach();
         y.mul_(x);
         return z * x;
       }},
      {"views that are read without history first", some(),
       [](const Tensor &x) {
         Tensor flat = x.reshape({6}), part = x.slice(0, 1, 4), most;
         {
           NoGrad no_grad;
           most = max(abs(flat)) + sum(part);
         }
         return cat({flat / most, part * most});
       }},
      {"a choice without history", some(),
       [](const Tensor &x) {
         Tensor y = x.detach().clone();
         return where(y > 0.0, x * y, y);
       }},
  });
}

TEST(ProgramDerivative, IsThatOfFunctionsWithOneOfTheirOwn) {
  Tensor ties = tensor({1.f, 1.f, 0.f, 1.f, -1.f, 2.f}).reshape({2, 3});
  Tensor positive = tensor({4.f, 1.f, .5f, 1.f, 5.f, 2.f, .5f, 2.f, 6.f}).reshape({3, 3});
  float inf = std::numeric_limits<float>::infinity();
  expect_alike({
      {"clamp", some(), [](const Tensor &x) { return clamp(x, -1.0, 1.0); }},
      {"clamp_min", some(), [](const Tensor &x) { return clamp_min(x, 0.0); }},
      {"clamp_max", some(), [](const Tensor &x) { return clamp_max(x, 1.0); }},
      {"hardtanh", some(), [](const Tensor &x) { return hardtanh(x); }},
      {"relu6", some() * 2.0, [](const Tensor &x) { return relu6(x); }},
      {"hardsigmoid", some() * 3.0, [](const Tensor &x) { return hardsigmoid(x); }},
      {"logsumexp", ties, [](const Tensor &x) { return logsumexp(x, 1); }},
      {"logsumexp of infinities", tensor({-inf, 0.f, 1.f}),
       [](const Tensor &x) { return logsumexp(x, 0); }},
      {"logcumsumexp", ties, [](const Tensor &x) { return logcumsumexp(x, 1); }},
      {"median", ties, [](const Tensor &x) { return median(x, 1).first; }},
      {"norm at 0", zeros({4}), [](const Tensor &x) { return norm(x); }},
      {"p = 0", ties, [](const Tensor &x) { return norm(x, 0.0); }},
      {"binary_cross_entropy", tensor({0.f, 1.f, .25f, 0.f, 1.f}),
       [](const Tensor &x) {
         return binary_cross_entropy(x, tensor({0.f, 1.f, .5f, 1.f, 0.f}), Reduction::kNone);
       }},
      {"logit", tensor({0.f, .25f, .5f, 1.f}), [](const Tensor &x) { return logit(x, 0.1); }},
      {"grid_sample", tensor({-1.f, 1.f, 0.f, .3f, 1.f, -1.f, -3.f, .2f}).reshape({1, 2, 2, 2}),
       [](const Tensor &x) {
         return grid_sample(arange(9, DType::kFloat32).reshape({1, 1, 3, 3}), x,
                            {.padding = GridPadding::kBorder});
       }},
  });
}

// What grad() gives inside the function is constant, or has a history, as it has in the plain call.
TEST(ProgramDerivative, OfAGradientInside) {
  for (bool create_graph : {false, true}) {
    Program program = trace(
        [&](const Tensor &given) {
          Tensor x = given.clone();
          x.set_requires_grad(true);
          Tensor g = grad({(x * x * x).sum()}, {x},
                          {.create_graph = create_graph, .retain_graph = true})[0];
          return (g * x).sum();
        },
        {zeros({3})});
    // 3 x^2 as a constant, or the derivative of 3 x^3; the same where it is computed again.
    Program again = trace(
        [&](const Tensor &given) {
          Tensor x = given.clone();
          x.set_requires_grad(true);
          Tensor y = checkpoint([](const Tensor &at) { return at * at * at; })(x);
          Tensor g = grad({y.sum()}, {x}, {.create_graph = create_graph, .retain_graph = true})[0];
          return (g * x).sum();
        },
        {zeros({3})});
    EXPECT_EQ(again.differentiate().run({tensor({1.f, -2.f, 3.f})})[1].to_vector<float>(),
              create_graph ? (Floats{9, 36, 81}) : (Floats{3, 12, 27}));
    EXPECT_EQ(program.differentiate().run({tensor({1.f, -2.f, 3.f})})[1].to_vector<float>(),
              create_graph ? (Floats{9, 36, 81}) : (Floats{3, 12, 27}));
  }
}

// A function that returns what has no history, and one that is traced where none is kept.
TEST(ProgramDerivative, OfAResultWithoutHistory) {
  auto gradient = [](const Function &function) {
    return trace(function, {zeros({2})})
        .differentiate({.result = 0})
        .run({tensor({3.f, 4.f}), ones({2})})[1]
        .to_vector<float>();
  };
  auto squared = [](const Tensor &x) {
    NoGrad no_grad;
    return x * x;
  };
  EXPECT_EQ(gradient(squared), (Floats{0, 0}));
  EXPECT_EQ(gradient([](const Tensor &x) {
              NoGrad no_grad;
              return x.clone();
            }),
            (Floats{0, 0}));
  NoGrad no_grad;
  EXPECT_EQ(gradient([](const Tensor &x) { return x * x; }), (Floats{6, 8}));
  EXPECT_EQ(gradient([](const Tensor &x) { return x * x.detach(); }), (Floats{3, 4}));
}

// Behind a stop no derivative is asked for.
TEST(ProgramDerivative, OpsWithoutOneMayStandBehindAStop) {
  Program program = Program::parse(R"(func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = weft.detach %x : tensor<3xf32>
    %1 = weft.fusion(%a = %0 : tensor<3xf32>) -> (tensor<3xf32>) {
      %3 = weft.neg %a : tensor<3xf32>
      weft.yield %3 : tensor<3xf32>
    }
    %2 = weft.mul %1, %x : tensor<3xf32>
    return %2 : tensor<3xf32>
  })");
  EXPECT_EQ(program.differentiate().output_shapes().size(), 2u);
}

// What compiles it sees no op of it, a range of sizes has it, too, and a jitted call has none.
TEST(ProgramDerivative, AStopCostsNothing) {
  Function function = [](const Tensor &x) {
    return clamp(x, -1.0, 1.0) * (x * x).detach();
  };
  Program program = trace(function, {ones({4, 3})});
  EXPECT_NE(program.to_string(false).find("weft.detach"), std::string::npos);
  std::vector<Tensor> results = program.run({full({4, 3}, .5)});
  EXPECT_EQ(results[0].to_vector<float>(), Floats(12, .125f));
  Program plain = trace([](const Tensor &x) { return relu(x) * 2.0; }, {ones({4, 3})});
  EXPECT_EQ(plain.to_string(false).find("weft.detach"), std::string::npos);
  Program many = trace(function, {ones({4, 3})}, {}, BatchRange{.min = 1, .max = 8});
  EXPECT_EQ(many.run({full({7, 3}, .5)})[0].to_vector<float>(), Floats(21, .125f));
  Program derivative = many.differentiate();
  EXPECT_EQ(derivative.run({full({2, 3}, .5), ones({2, 3})})[1].to_vector<float>(),
            Floats(6, .25f));
}

} // namespace
} // namespace weft
