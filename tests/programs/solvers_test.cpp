// Solvers that look at a value in every iteration, as users write them: the numbers are right, the
// number of programs does not grow with that of the iterations, and an iteration called, jitted and
// traced has the same bits.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

// A symmetric positive matrix: a chain of springs, and a little more on the diagonal.
Tensor springs(int64_t n) {
  std::vector<double> values(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i * n + i)] = 2.05;
    if (i > 0)
      values[static_cast<size_t>(i * n + i - 1)] = values[static_cast<size_t>((i - 1) * n + i)] =
          -1;
  }
  return Tensor::from(values, {n, n});
}

TEST(Solvers, ConjugateGradients) {
  constexpr int64_t kSize = 40;
  Tensor a = springs(kSize), b = sin(arange(kSize, float64));
  Tensor x = zeros({kSize}, float64), r = b.clone(), p = b.clone(), rr = (r * r).sum();
  eval({a, b, x, r, p, rr});
  auto iterate = [&](const Tensor &x, const Tensor &r, const Tensor &p, const Tensor &rr) {
    Tensor ap = matmul(a, p), alpha = rr / (p * ap).sum(), rest = r - alpha * ap,
           next = (rest * rest).sum();
    return std::tuple(x + alpha * p, rest, rest + next / rr * p, next);
  };
  Compiles compiles;
  int iterations = 0;
  while (rr.item<double>() > 1e-20 && iterations < 200) {
    std::tie(x, r, p, rr) = iterate(x, r, p, rr);
    ++iterations;
  }
  EXPECT_LE(compiles.count(), 2u);
  EXPECT_LE(iterations, kSize + 5);
  EXPECT_LT(norm(matmul(a, x) - b).item<double>(), 1e-9);
  ThreeWays{.calls = 4, .fed_back = 4}.compare(iterate, zeros_like(b), b, b, (b * b).sum());
}

// Logistic regression by Newton's method, whose steps come from conjugate gradients with
// Hessian-vector products.
TEST(Solvers, NewtonWithHessianVectorProducts) {
  manual_seed(3);
  Tensor x = randn({60, 5}, float64),
         y = (rand({60}, float64) < sigmoid(matmul(x, arange(5, float64) * 0.3 - 0.6))).to(float64);
  Tensor w = zeros({5}, float64);
  eval({x, y, w});
  auto slope = [&](const Tensor &point) {
    Tensor loss =
        nn::binary_cross_entropy_with_logits(matmul(x, point), y) + 0.005 * point.square().sum();
    return grad({loss}, {point}, true)[0];
  };
  // Goes on until it is asked no more.
  auto direction = [](const Tensor &point, const Tensor &g, auto &&more) {
    Tensor d = zeros({5}, float64), r = -g.detach(), p = r, rr = (r * r).sum();
    for (int inner = 0; inner < 20 && more(inner, rr); ++inner) {
      Tensor hp = grad({(g * p.detach()).sum()}, {point}, {.retain_graph = true})[0];
      Tensor alpha = rr / (p * hp).sum();
      d = d + alpha * p;
      r = r - alpha * hp;
      Tensor next = (r * r).sum();
      p = r + next / rr * p;
      rr = next;
    }
    return d;
  };
  Compiles compiles;
  std::vector<double> norms;
  for (int outer = 0; outer < 8; ++outer) {
    Tensor point = w.detach().clone().requires_grad_(), g = slope(point);
    norms.push_back(norm(g).item<double>());
    if (norms.back() < 1e-12)
      break;
    Tensor d = direction(point, g, [](int, const Tensor &rr) { return rr.item<double>() > 1e-28; });
    w = (w + d).detach();
  }
  // From a certain point on the number of right digits doubles.
  EXPECT_LT(norms.back(), 1e-12);
  EXPECT_LE(norms.size(), 8u);
  EXPECT_LE(compiles.count(), 8u)
      << "some for the start of an outer iteration, some for its inner ones, for all of them";
  auto iterate = [&](const Tensor &w) {
    Tensor point = w.detach().clone().requires_grad_(), g = slope(point);
    return (w + direction(point, g, [](int inner, const Tensor &) { return inner < 5; })).detach();
  };
  ThreeWays{.calls = 3, .fed_back = 1}.compare(iterate, zeros({5}, float64));
}

TEST(Solvers, KMeans) {
  manual_seed(4);
  constexpr int64_t kCenters = 3;
  Tensor middles = tensor<float>({{0, 0}, {6, 0}, {0, 6}});
  Tensor x = (randn({90, 2}) + repeat_interleave(middles, 30, 0)),
         centers = x.index({tensor<int64_t>({0, 35, 70})});
  eval({x, centers});
  auto iterate = [&](const Tensor &centers) {
    Tensor distances = (x.unsqueeze(1) - centers.unsqueeze(0)).square().sum(2);
    Tensor nearest = argmin(distances, 1);
    Tensor sums = scatter_add(zeros({kCenters, 2}), 0, nearest.unsqueeze(1).expand({-1, 2}), x);
    Tensor counts = scatter_add(zeros({kCenters}), 0, nearest, ones({x.size(0)}));
    return std::pair(sums / clamp(counts, 1).unsqueeze(1), nearest);
  };
  Compiles compiles;
  std::vector<int64_t> before, now;
  int iterations = 0;
  do {
    before = now;
    Tensor nearest;
    std::tie(centers, nearest) = iterate(centers);
    now = nearest.to_vector<int64_t>();
  } while (now != before && ++iterations < 50);
  EXPECT_LE(compiles.count(), 2u);
  EXPECT_LT(iterations, 20);
  // Each center is the mean of what is nearest to it, computed here once more.
  std::vector<float> points = x.to_vector<float>(), found = centers.to_vector<float>();
  for (int64_t c = 0; c < kCenters; ++c) {
    double sum[2] = {0, 0};
    int count = 0;
    for (size_t i = 0; i < now.size(); ++i)
      if (now[i] == c)
        sum[0] += points[2 * i], sum[1] += points[2 * i + 1], ++count;
    ASSERT_GT(count, 20);
    EXPECT_NEAR(found[static_cast<size_t>(2 * c)], sum[0] / count, 1e-5);
    EXPECT_NEAR(found[static_cast<size_t>(2 * c + 1)], sum[1] / count, 1e-5);
  }
  ThreeWays{.fed_back = 1}.compare(iterate, x.narrow(0, 0, kCenters));
}

TEST(Solvers, PageRankByScattering) {
  std::vector<int64_t> from, to;
  constexpr int64_t kPages = 30;
  for (int64_t i = 0; i < kPages; ++i)
    for (int64_t k = 1; k <= 1 + i % 3; ++k)
      from.push_back(i), to.push_back((i * 7 + 3 * k) % kPages);
  Tensor source = Tensor::from(from), target = Tensor::from(to);
  Tensor degree = scatter_add(zeros({kPages}, float64), 0, source, ones({source.numel()}, float64));
  Tensor rank = full({kPages}, 1.0 / kPages, float64);
  eval({source, target, degree, rank});
  auto iterate = [&](const Tensor &rank) {
    Tensor flow = gather(rank / degree, 0, source);
    Tensor next = scatter_add(full({kPages}, 0.15 / kPages, float64), 0, target, 0.85 * flow);
    return std::pair(next, abs(next - rank).sum());
  };
  Compiles compiles;
  int iterations = 0;
  double change = 1;
  while (change > 1e-13 && ++iterations < 300) {
    auto [next, difference] = iterate(rank);
    change = difference.item<double>();
    rank = next;
  }
  EXPECT_LE(compiles.count(), 2u);
  std::vector<double> expected(kPages, 1.0 / kPages), out(kPages, 0);
  for (int64_t page : from)
    ++out[static_cast<size_t>(page)];
  for (int i = 0; i < 400; ++i) {
    std::vector<double> next(kPages, 0.15 / kPages);
    for (size_t e = 0; e < from.size(); ++e)
      next[static_cast<size_t>(to[e])] +=
          0.85 * expected[static_cast<size_t>(from[e])] / out[static_cast<size_t>(from[e])];
    expected = next;
  }
  std::vector<double> found = rank.to_vector<double>();
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-12);
  ThreeWays{.fed_back = 1}.compare(iterate, full({kPages}, 1.0 / kPages, float64));
}

// Row by row: the position that changes is one of a program's numbers, not a program of its own.
TEST(Solvers, AHessianByRows) {
  constexpr int64_t kSize = 12;
  Tensor x = (arange(kSize, float64) * 0.1 + 0.5).requires_grad_();
  eval({x});
  auto slope = [](const Tensor &x) {
    Tensor head = x.narrow(0, 0, kSize - 1), tail = x.narrow(0, 1, kSize - 1);
    Tensor rosenbrock = (100 * (tail - head.square()).square() + (1 - head).square()).sum();
    return grad({rosenbrock}, {x}, true)[0];
  };
  Tensor g = slope(x);
  Compiles compiles;
  std::vector<std::vector<double>> hessian;
  for (int64_t i = 0; i < kSize; ++i)
    hessian.push_back(grad({g[i]}, {x}, {.retain_graph = true})[0].to_vector<double>());
  EXPECT_LE(compiles.count(), 4u);
  std::vector<double> at = x.to_vector<double>();
  for (size_t i = 0; i < kSize; ++i)
    for (size_t j = 0; j < kSize; ++j) {
      double expected = 0;
      if (i == j)
        expected =
            (i > 0 ? 200 : 0) + (i + 1 < kSize ? 1200 * at[i] * at[i] - 400 * at[i + 1] + 2 : 0);
      if (j == i + 1)
        expected = -400 * at[i];
      if (i == j + 1)
        expected = -400 * at[j];
      EXPECT_NEAR(hessian[i][j], expected, 1e-9) << i << ", " << j;
    }
  ThreeWays().compare([&] {
    Tensor g = slope(x);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < kSize; ++i)
      rows.push_back(grad({g[i]}, {x}, {.retain_graph = true})[0]);
    return stack(rows);
  });
}

// Three rows of a table in each step, other ones each time: where they lie is a matter of numbers.
TEST(Solvers, RowsOfATable) {
  manual_seed(5);
  Tensor table = (randn({9, 4}) * 0.1).requires_grad_();
  optim::SGD optimizer({table}, {.lr = 0.5});
  // Two of one half, which are to meet, and one of the other, which is to part from them.
  auto meet = [&](int64_t half, int64_t a, int64_t b, int64_t c) {
    Tensor left = table[4 * half + a], right = table[4 * half + b],
           other = table[4 * (1 - half) + c];
    Tensor loss = -log_sigmoid((left * right).sum()) - log_sigmoid(-(left * other).sum());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  Compiles compiles;
  data::SplitMix64 random(3);
  for (int step = 0; step < 20; ++step) {
    int64_t half = static_cast<int64_t>(random.below(2)), a = static_cast<int64_t>(random.below(4)),
            b = (a + 1 + step % 3) % 4;
    int64_t c = static_cast<int64_t>(random.below(4));
    EXPECT_GT(meet(half, a, b, c).item<float>(), 0);
  }
  EXPECT_LE(compiles.count(), 3u);
  Tensor products = matmul(table, table.t()), within = products.index({Slice(0, 4), Slice(0, 4)});
  EXPECT_GT((within.sum() - (within * eye(4)).sum()).item<float>(),
            products.index({Slice(0, 4), Slice(4, 8)}).sum().item<float>());
  ThreeWays{.written = {table}}.compare(meet, int64_t(1), int64_t(0), int64_t(3), int64_t(2));
}

// Gradient descent with a line search: how often it halves its step is the data's business.
TEST(Solvers, DescentWithALineSearch) {
  Tensor x = tensor({-1.2, 1.0});
  auto value = [](const Tensor &p) {
    Tensor a = p[0], b = p[1];
    return 100 * (b - a * a).square() + (1 - a).square();
  };
  auto slope_at = [&](const Tensor &x) {
    Tensor point = x.detach().clone().requires_grad_();
    return grad({value(point)}, {point})[0];
  };
  eval({x});
  Compiles compiles;
  double loss = value(x).item<double>();
  int evaluations = 0;
  for (int step = 0; step < 200; ++step) {
    Tensor g = slope_at(x);
    double size = 1, slope = (g * g).sum().item<double>();
    Tensor next;
    for (;; size /= 2) {
      next = x - size * g;
      double tried = value(next).item<double>();
      ++evaluations;
      if (tried <= loss - 1e-4 * size * slope || size < 1e-12) {
        loss = tried;
        break;
      }
    }
    x = next.detach();
  }
  EXPECT_LT(loss, 0.2);
  EXPECT_GT(evaluations, 400);
  EXPECT_LE(compiles.count(), 6u);
  auto descend = [&](const Tensor &x, double size) {
    Tensor g = slope_at(x), next = x - size * g;
    return std::tuple(next, value(next), (g * g).sum());
  };
  ThreeWays{.calls = 4, .fed_back = 1}.compare(descend, tensor({-1.2, 1.0}), 1.0 / 1024);
}

// Optimal transport by Sinkhorn's scaling (Cuturi 2013), differentiated through its iterations.
TEST(Solvers, SinkhornAndItsDerivative) {
  manual_seed(6);
  Tensor x = rand({8, 2}, float64), y = rand({6, 2}, float64);
  auto cost = [&](const Tensor &from) {
    Tensor c = (from.unsqueeze(1) - y.unsqueeze(0)).square().sum(2), k = exp(c / -0.1);
    Tensor u = full({8}, 1.0, float64), v = full({6}, 1.0, float64);
    for (int i = 0; i < 60; ++i) {
      u = (1.0 / 8) / matmul(k, v);
      v = (1.0 / 6) / matmul(k.t(), u);
    }
    Tensor plan = u.unsqueeze(1) * k * v.unsqueeze(0);
    return std::pair((plan * c).sum(), plan);
  };
  Tensor point = x.clone().detach().requires_grad_();
  auto [total, plan] = cost(point);
  Tensor g = grad({total}, {point})[0];
  for (double mass : plan.sum(0).to_vector<double>())
    EXPECT_NEAR(mass, 1.0 / 6, 1e-9);
  for (double mass : plan.sum(1).to_vector<double>())
    EXPECT_NEAR(mass, 1.0 / 8, 1e-5);
  // Against differences.
  std::vector<double> gradient = g.to_vector<double>();
  Compiles compiles;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<double> high = x.to_vector<double>(), low = high;
    high[i] += 1e-5, low[i] -= 1e-5;
    NoGrad no_grad;
    double slope = (cost(Tensor::from(high, {8, 2})).first.item<double>() -
                    cost(Tensor::from(low, {8, 2})).first.item<double>()) /
                   2e-5;
    EXPECT_NEAR(gradient[i], slope, 1e-6);
  }
  EXPECT_LE(compiles.count(), 2u);
  ThreeWays().compare(
      [&](const Tensor &x) {
        Tensor point = x.clone().requires_grad_();
        auto [total, plan] = cost(point);
        Tensor g = grad({total}, {point}, {.retain_graph = true})[0];
        return std::tuple(g, total.detach(), plan.detach());
      },
      x);
}

} // namespace
} // namespace weft::tests
