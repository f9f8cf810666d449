// Linear algebra: known values, what the factors make, derivatives against formulas and
// differences, leading dims, sizes of 0, errors, and a density of a normal distribution.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using Doubles = std::vector<double>;

// Matrices with numbers of no pattern, and positive definite ones.
Tensor numbers(const Shape &shape, uint64_t seed = 1) {
  Generator generator(seed);
  return randn(shape, generator, float64);
}
Tensor definite(const Shape &shape, uint64_t seed = 1) {
  Tensor x = numbers(shape, seed);
  return matmul(x, x.mT()) + eye(shape.back(), {}, float64) * 0.5;
}

double largest(const Tensor &x) {
  return x.size() == 0 ? 0 : abs(x).max().item<double>();
}

constexpr int64_t kSizes[] = {1, 2, 7};

TEST(Linalg, CholeskyGivesItsMatrixBack) {
  for (int64_t n : kSizes) {
    Tensor a = definite({3, n, n}), l = cholesky(a), u = cholesky(a, true);
    EXPECT_LT(largest(matmul(l, l.mT()) - a), 1e-12 * largest(a)) << n;
    EXPECT_EQ(largest(triu(l, 1)), 0) << n;
    EXPECT_LT(largest(u - l.mT()), 1e-12 * largest(l)) << n;
  }
  Tensor known = cholesky(Tensor::from(std::vector<float>{4, 99, 2, 5}, {2, 2}));
  EXPECT_EQ(known.to_vector<float>(), (std::vector<float>{2, 0, 1, 2})); // 99 is not read
}

TEST(Linalg, LargeMatricesGoInBlocks) {
  for (int64_t n : {64, 131}) {
    Tensor a = definite({n, n}), l = cholesky(a), b = numbers({n, 37}, 2);
    EXPECT_LT(largest(matmul(l, l.mT()) - a), 1e-12 * largest(a)) << n;
    EXPECT_LT(largest(matmul(a, cholesky_solve(b, l)) - b), 1e-8) << n;
    Tensor x = numbers({n, n}, 3);
    LuResult parts = lu(x);
    EXPECT_LT(largest(matmul(parts.p, matmul(parts.l, parts.u)) - x), 1e-12 * n) << n;
    EXPECT_LE(largest(parts.l), 1) << n;
    EXPECT_LT(largest(matmul(x, solve(x, b)) - b), 1e-8) << n;
    Tensor single = a.to(float32);
    EXPECT_LT(largest((matmul(cholesky(single), cholesky(single).mT()) - single).to(float64)),
              1e-4 * largest(a))
        << n;
  }
}

TEST(Linalg, TriangularSystems) {
  for (int64_t n : kSizes)
    for (bool upper : {false, true})
      for (bool left : {false, true})
        for (bool unit : {false, true}) {
          Tensor a = numbers({2, n, n}) / n + eye(n, {}, float64) * 2.0;
          Tensor b = left ? numbers({2, n, 3}, 2) : numbers({2, 3, n}, 2);
          Tensor x = solve_triangular(a, b, upper, left, unit);
          Tensor t = upper ? triu(a) : tril(a);
          if (unit)
            t = t - diag_embed(t.diagonal(0, -2, -1)) + eye(n, {}, float64);
          Tensor back = left ? matmul(t, x) : matmul(x, t);
          EXPECT_LT(largest(back - b), 1e-9) << n << upper << left << unit;
        }
}

TEST(Linalg, SystemsAndDeterminants) {
  for (int64_t n : kSizes) {
    Tensor a = numbers({2, n, n}), b = numbers({2, n, 4}, 5);
    EXPECT_LT(largest(matmul(a, solve(a, b)) - b), 1e-9) << n;
    EXPECT_LT(largest(matmul(solve(a, b.mT(), false), a) - b.mT()), 1e-9) << n;
    EXPECT_LT(largest(matmul(a, inverse(a)) - eye(n, {}, float64)), 1e-9) << n;
    Tensor vectors = numbers({2, n}, 6);
    EXPECT_LT(largest(matmul(a, solve(a, vectors).unsqueeze(-1)).squeeze(-1) - vectors), 1e-9) << n;
    auto [sign, logarithm] = slogdet(a);
    EXPECT_LT(largest(sign * exp(logarithm) - det(a)), 1e-9 * largest(det(a))) << n;
  }
  // By hand; rows that change places, a singular one.
  Tensor a = Tensor::from(Doubles{0, 2, 3, 4, 1, 2, 2, 4}, {2, 2, 2});
  EXPECT_EQ(det(a).to_vector<double>(), (Doubles{-6, 0}));
  EXPECT_EQ(slogdet(a).sign.to_vector<double>(), (Doubles{-1, 0}));
  Doubles logs = logdet(a).to_vector<double>();
  EXPECT_TRUE(std::isnan(logs[0]));
  EXPECT_EQ(logs[1], -std::numeric_limits<double>::infinity());
  // Permutations of either sign.
  Tensor p = Tensor::from(Doubles{0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1}, {2, 3, 3});
  EXPECT_EQ(det(p).to_vector<double>(), (Doubles{1, -1}));
}

TEST(Linalg, LeadingDimsBroadcast) {
  Tensor l = cholesky(definite({4, 1, 3, 3})), b = numbers({5, 3, 2}, 2);
  Tensor x = cholesky_solve(b, l);
  EXPECT_EQ(x.shape(), (Shape{4, 5, 3, 2}));
  EXPECT_LT(largest(matmul(matmul(l, l.mT()), x) - b), 1e-9);
  EXPECT_LT(largest(matmul(matmul(l, l.mT()), cholesky_inverse(l)) - eye(3, {}, float64)), 1e-9);
  EXPECT_EQ(solve(numbers({2, 1, 3, 3}), b).shape(), (Shape{2, 5, 3, 2}));
}

TEST(Linalg, NothingToCompute) {
  EXPECT_EQ(cholesky(zeros({0, 0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(cholesky(zeros({0, 3, 3})).to_vector<float>().size(), 0u);
  EXPECT_EQ(det(zeros({0, 0})).item<float>(), 1);
  EXPECT_EQ(slogdet(zeros({2, 0, 0})).logabsdet.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(solve(eye(3), zeros({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(inverse(zeros({0, 2, 2})).shape(), (Shape{0, 2, 2}));
}

TEST(Linalg, NarrowDtypesComputeInFloat32) {
  Tensor a = definite({5, 5}).to(bfloat16), l = cholesky(a);
  EXPECT_EQ(l.dtype(), bfloat16);
  EXPECT_EQ(largest((l - cholesky(a.to(float32)).to(bfloat16)).to(float64)), 0);
  Autocast scope(bfloat16);
  EXPECT_EQ(solve(a, ones({5, 1}, bfloat16)).dtype(), float32);
}

using Function = std::function<Tensor(const Tensor &)>;

Tensor weighted(const Tensor &x) {
  return (x * cos(arange(x.size()).to(float64) * 1.7).reshape(x.shape())).sum();
}

// First and second derivatives against central differences, of weighted sums.
void check_derivatives(const Function &f, const Tensor &at, const char *what) {
  auto gradient = [&](const Tensor &x) {
    Tensor leaf = x.detach().clone().requires_grad_();
    return grad({weighted(f(leaf))}, {leaf}, {.create_graph = true})[0];
  };
  constexpr double kStep = 1e-5;
  Doubles values = at.to_vector<double>();
  Tensor leaf = at.detach().clone().requires_grad_();
  Tensor first = grad({weighted(f(leaf))}, {leaf}, {.create_graph = true})[0];
  Doubles second = grad({weighted(first)}, {leaf})[0].to_vector<double>();
  Doubles slopes = first.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    auto moved = [&](double step) {
      Doubles there = values;
      there[i] += step;
      return Tensor::from(there, at.shape());
    };
    Tensor above = moved(kStep), below = moved(-kStep);
    double slope = (weighted(f(above)) - weighted(f(below))).item<double>() / (2 * kStep);
    EXPECT_NEAR(slopes[i], slope, 1e-6 * (1 + std::abs(slope))) << what << " " << i;
    double bend =
        (weighted(gradient(above)) - weighted(gradient(below))).item<double>() / (2 * kStep);
    EXPECT_NEAR(second[i], bend, 1e-6 * (1 + std::abs(bend))) << what << " " << i << ", second";
  }
}

TEST(Linalg, Derivatives) {
  Tensor a = numbers({2, 3, 3}) * 0.3 + eye(3, {}, float64) * 2.0, b = numbers({2, 3, 2}, 2);
  // Of a symmetric function of the elements, as the gradient is symmetric.
  auto symmetric = [](const Tensor &x) { return (x + x.mT()) * 0.5; };
  check_derivatives([&](const Tensor &x) { return cholesky(symmetric(x)); }, a, "cholesky");
  check_derivatives([&](const Tensor &x) { return cholesky(symmetric(x), true); }, a, "upper");
  check_derivatives([&](const Tensor &x) { return solve(x, b); }, a, "solve, matrix");
  check_derivatives([&](const Tensor &x) { return square(solve(a, x)); }, b, "solve, right side");
  check_derivatives([&](const Tensor &x) { return solve(x, b.mT(), false); }, a, "solve, right");
  check_derivatives([&](const Tensor &x) { return inverse(x); }, a, "inverse");
  check_derivatives([&](const Tensor &x) { return det(x); }, a, "det");
  check_derivatives([&](const Tensor &x) { return slogdet(x).logabsdet; }, a, "slogdet");
  check_derivatives([&](const Tensor &x) { return solve_triangular(x, b.mT(), true, false, true); },
                    a, "solve_triangular");
  check_derivatives([&](const Tensor &x) { return cholesky_solve(b, cholesky(symmetric(x))); }, a,
                    "cholesky_solve");
}

// d log det A = trace(A^-1 dA), also of rows that change places; of a leaf, whose gradient is
// symmetric for cholesky.
TEST(Linalg, GradientsAreThoseOfFormulas) {
  Tensor a = definite({4, 4}).requires_grad_();
  Tensor by_factor = 2 * log(cholesky(a).diagonal()).sum();
  EXPECT_LT(largest(grad({by_factor}, {a})[0] - inverse(a.detach())), 1e-9);
  Tensor x = numbers({5, 5}).requires_grad_();
  EXPECT_LT(largest(grad({slogdet(x).logabsdet}, {x})[0] - inverse(x.detach()).mT()), 1e-9);
}

TEST(Linalg, InJit) {
  auto density = jit([](const Tensor &covariance, const Tensor &x) {
    Tensor l = cholesky(covariance);
    Tensor z = solve_triangular(l, x.unsqueeze(-1), false).squeeze(-1);
    return -0.5 * square(z).sum(-1) - log(l.diagonal(0, -2, -1)).sum(-1);
  });
  Tensor a = definite({3, 3}), x = numbers({3}, 4);
  // The same by the inverse and the determinant.
  Tensor expected = -0.5 * (x * matmul(inverse(a), x)).sum() - 0.5 * logdet(a);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(density(a, x).item<double>(), expected.item<double>(), 1e-10);
}

TEST(Linalg, Errors) {
  EXPECT_MESSAGE(cholesky(zeros({2, 3})),
                 "x has shape [2, 3]; its last two dimensions must be those of a square matrix");
  EXPECT_MESSAGE(det(zeros({3})), "square matrix");
  EXPECT_MESSAGE(inverse(zeros({2, 2}, int64)), "it must be floating");
  EXPECT_MESSAGE(solve(eye(2), zeros({3, 1})), "b has shape [3, 1] and a has shape [2, 2]");
  EXPECT_MESSAGE(solve(eye(2), zeros({3})),
                 "b has shape [3] and a has shape [2, 2]; dimension -1 of b must");
  EXPECT_MESSAGE(solve(eye(2), zeros({2, 1}, float64)), "float64");
  EXPECT_MESSAGE(solve_triangular(zeros({3, 2, 2}), zeros({2, 2, 2}), true), "leading dims");
  Tensor indefinite = Tensor::from(Doubles{1, 0, 0, 1, 1, 2, 2, 1}, {2, 2, 2});
  EXPECT_MESSAGE(cholesky(indefinite).to_vector<double>(),
                 "needs positive definite matrices; of matrix 1 the leading minor of order 2 is "
                 "not positive");
  EXPECT_MESSAGE(inverse(ones({2, 2})).to_vector<float>(),
                 "needs regular matrices; matrix 0 is singular: it has no pivot in column 1");
  EXPECT_EQ(det(ones({2, 2})).item<float>(), 0);
}

// What a step with such a matrix would have written is what it was before, and the steps that
// follow are as if that one had never been.
TEST(Linalg, AnUnfitMatrixCostsNoParameter) {
  std::vector<std::pair<std::string, std::function<Tensor(const Tensor &)>>> losses = {
      {"cholesky", [](const Tensor &x) { return log(cholesky(x).diagonal()).sum(); }},
      {"solve", [](const Tensor &x) { return solve(x, ones({3, 2})).sum(); }},
      {"inverse", [](const Tensor &x) { return inverse(x).sum(); }}};
  auto train = [](const auto &loss_of, bool jitted, bool with_unfit) {
    Tensor w = full({7}, 0.5).eval(), seen = zeros({5, 3, 3}).eval();
    w.set_requires_grad(true);
    optim::Adam optimizer({w}, {.lr = 0.1});
    std::function<Tensor(const Tensor &)> step = [&](const Tensor &scale) {
      Tensor matrix = eye(3) * scale * exp(w.sum());
      {
        NoGrad no_grad;
        seen[2] = matrix; // before what may fail
      }
      Tensor loss = loss_of(matrix) + loss_of(seen[2]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    if (jitted)
      step = jit(step);
    auto state = [&] {
      Doubles all = w.to_vector<double>(), written = seen.to_vector<double>();
      all.insert(all.end(), written.begin(), written.end());
      for (const auto &[name, tensor] : optimizer.state())
        all.push_back(tensor.to_vector<double>()[0]);
      return all;
    };
    (void)step(full({}, 2)).item<float>();
    Doubles before = state();
    for (int time = 0; time < 2 && with_unfit; ++time) {
      EXPECT_MESSAGE(step(full({}, 0)).item<float>(), "needs ");
      EXPECT_EQ(state(), before);
    }
    (void)step(full({}, 3)).item<float>();
    EXPECT_NE(state(), before);
    return state();
  };
  for (const auto &[name, loss_of] : losses)
    for (bool jitted : {false, true}) {
      SCOPED_TRACE(name + (jitted ? " in jit" : ""));
      EXPECT_EQ(train(loss_of, jitted, true), train(loss_of, jitted, false));
    }
}

} // namespace
} // namespace weft
