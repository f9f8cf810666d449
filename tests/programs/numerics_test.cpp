// Numerical methods whose course is decided by values that they read, and algorithms on graphs
// given as lists of edges: the numbers are those of plain C++, programs are found again, and what a
// method repeats has the same bits called, jitted and traced.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

// Numbers of [0, 1) without a pattern that a method could profit from.
Tensor numbers(const Shape &shape, int64_t seed) {
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  Doubles values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] =
        double(((i + seed) * (i + seed) * 31 + i * 7919 + 17) % 10007) / 10007;
  return Tensor::from(values, shape);
}

// Columns that are stacked, most of whose derivatives are zeros.
Tensor cholesky_by_columns(const Tensor &a) {
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < a.size(0); ++j) {
    Tensor c = a.select(1, j);
    for (const Tensor &k : columns)
      c = c - k * k[j];
    columns.push_back(where(arange(a.size(0)) >= j, c / sqrt(c[j]), 0.0));
  }
  return stack(columns, 1);
}

TEST(Numerics, TheDerivativeOfCholeskyByColumns) {
  constexpr int64_t kSize = 24;
  Tensor root = numbers({kSize, kSize}, 3),
         a = matmul(root, root.t()) + 2.0 * eye(kSize, {}, float64);
  a.eval();
  a.requires_grad_();
  Tensor l = cholesky_by_columns(a), determinant = 2.0 * l.diagonal().log().sum();
  EXPECT_LT((matmul(l, l.t()) - a).abs().max().item<double>(), 1e-12);
  // The derivative of log det A is its inverse; Cholesky reads the lower triangle, so that what
  // stands above counts there.
  Tensor g = grad({determinant}, {a})[0], both = g + g.t() - g * eye(kSize, {}, float64),
         inverse = (both + both * eye(kSize, {}, float64)) / 2.0;
  EXPECT_LT((matmul(inverse, a.detach()) - eye(kSize, {}, float64)).abs().max().item<double>(),
            1e-10);
  ThreeWays().compare([&] {
    Tensor l = cholesky_by_columns(a);
    Tensor g = grad({l.diagonal().log().sum()}, {a}, {.retain_graph = true})[0];
    return std::pair(l.detach(), g);
  });
}

// Dormand and Prince's method of order 5 with steps chosen by the error: a body on an ellipse comes
// back to where it was.
TEST(Numerics, AnOrbitByAdaptiveSteps) {
  auto f = [](const Tensor &y) {
    Tensor place = y.narrow(0, 0, 2), r = norm(place);
    return cat({y.narrow(0, 2, 2), -place / (r * r * r)});
  };
  constexpr double kEccentricity = 0.6, kTolerance = 1e-9;
  Tensor start = tensor<double>(
             {1 - kEccentricity, 0, 0, std::sqrt((1 + kEccentricity) / (1 - kEccentricity))}),
         y = start.clone();
  y.eval();
  // Where a step of size h leads, and its error.
  auto step = [&](const Tensor &y, double h) {
    Tensor k1 = f(y), k2 = f(y + h / 5 * k1), k3 = f(y + h * (3. / 40 * k1 + 9. / 40 * k2));
    Tensor k4 = f(y + h * (44. / 45 * k1 - 56. / 15 * k2 + 32. / 9 * k3));
    Tensor k5 =
        f(y + h * (19372. / 6561 * k1 - 25360. / 2187 * k2 + 64448. / 6561 * k3 - 212. / 729 * k4));
    Tensor k6 = f(y + h * (9017. / 3168 * k1 - 355. / 33 * k2 + 46732. / 5247 * k3 +
                           49. / 176 * k4 - 5103. / 18656 * k5));
    Tensor next = y + h * (35. / 384 * k1 + 500. / 1113 * k3 + 125. / 192 * k4 - 2187. / 6784 * k5 +
                           11. / 84 * k6),
           k7 = f(next);
    Tensor e = h * (71. / 57600 * k1 - 71. / 16695 * k3 + 71. / 1920 * k4 - 17253. / 339200 * k5 +
                    22. / 525 * k6 - 1. / 40 * k7);
    return std::pair(next, (e.abs() / (kTolerance * (1 + maximum(y.abs(), next.abs())))).max());
  };
  Compiles compiles;
  double t = 0, h = 0.5;
  const double period = 2 * std::acos(-1.0);
  int accepted = 0, rejected = 0;
  while (t < period && accepted + rejected < 1000) {
    h = std::min(h, period - t);
    auto [next, errors] = step(y, h);
    double error = errors.item<double>();
    if (error < 1)
      t += h, y = next, ++accepted;
    else
      ++rejected;
    h *= std::clamp(0.9 * std::pow(error, -0.2), 0.2, 5.0);
  }
  EXPECT_GT(rejected, 0);
  EXPECT_LT(accepted, 300);
  EXPECT_LE(compiles.count(), 3u) << "after an accepted step, and after a rejected one";
  EXPECT_LT((y - start).abs().max().item<double>(), 2e-6);
  ThreeWays{.calls = 4, .fed_back = 1}.compare(step, start, 0.01);
}

// A sparse matrix as lists of entries: the basis has a row for each step, and those that are not
// there yet are zeros, so that all steps are one program.
TEST(Numerics, GmresWithRestarts) {
  constexpr int64_t kSide = 12, kSize = kSide * kSide, kRestart = 10;
  Ints rows, columns;
  Doubles entries;
  for (int64_t k = 0; k < kSize; ++k) {
    auto add = [&](int64_t column, double value) {
      rows.push_back(k), columns.push_back(column), entries.push_back(value);
    };
    add(k, 4.1);
    if (k >= kSide)
      add(k - kSide, -1.3);
    if (k % kSide)
      add(k - 1, -1.3);
    if (k % kSide < kSide - 1)
      add(k + 1, -0.7);
    if (k < kSize - kSide)
      add(k + kSide, -0.7);
  }
  Tensor row = Tensor::from(rows), column = Tensor::from(columns), entry = Tensor::from(entries);
  auto product = [&](const Tensor &x) {
    return zeros({kSize}, float64).index_add(0, row, entry * x.index_select(0, column));
  };
  // The next row of a basis, which is written, what it is made of, and its length before.
  auto extend = [&](Tensor basis, int64_t j) {
    Tensor w = product(basis[j]), along = matmul(basis, w);
    w = w - matmul(along, basis);
    Tensor again = matmul(basis, w);
    w = w - matmul(again, basis);
    Tensor length = norm(w);
    basis[j + 1] = w / length;
    return std::pair(along + again, length);
  };
  Tensor b = numbers({kSize}, 5), x = zeros({kSize}, float64);
  const double size = norm(b).item<double>();
  Compiles compiles;
  int steps = 0;
  double residual = size;
  for (int restart = 0; restart < 40; ++restart) {
    Tensor r = b - product(x);
    residual = norm(r).item<double>();
    if (residual < 1e-10 * size)
      break;
    Tensor basis = zeros({kRestart + 1, kSize}, float64);
    basis[0] = r / residual;
    std::vector<Doubles> h(kRestart, Doubles(kRestart + 1));
    for (int64_t j = 0; j < kRestart; ++j, ++steps) {
      auto [along, length] = extend(basis, j);
      h[size_t(j)] = along.to_vector<double>();
      h[size_t(j)][size_t(j) + 1] = length.item<double>();
    }
    // The least squares problem of the Hessenberg matrix, by Givens' rotations.
    Doubles g(kRestart + 1), y(kRestart);
    g[0] = residual;
    for (size_t j = 0; j < kRestart; ++j) {
      double c = h[j][j], s = h[j][j + 1], d = std::hypot(c, s);
      auto rotate = [&](double &p, double &q) {
        double before = p;
        p = (c * p + s * q) / d, q = (c * q - s * before) / d;
      };
      for (size_t k = j; k < kRestart; ++k)
        rotate(h[k][j], h[k][j + 1]);
      rotate(g[j], g[j + 1]);
    }
    for (size_t j = kRestart; j-- > 0;) {
      y[j] = g[j];
      for (size_t k = j + 1; k < kRestart; ++k)
        y[j] -= h[k][j] * y[k];
      y[j] /= h[j][j];
    }
    x = x + matmul(Tensor::from(y), basis.narrow(0, 0, kRestart));
  }
  EXPECT_LT(residual, 1e-10 * size);
  EXPECT_LT(steps, 200);
  EXPECT_LE(compiles.count(), 8u) << "for all steps together";
  Tensor basis = zeros({kRestart + 1, kSize}, float64);
  basis[0] = b / norm(b);
  ThreeWays().compare(extend, basis, int64_t(0));
  ThreeWays().compare(
      [&](const Tensor &basis) {
        std::vector<Tensor> all;
        for (int64_t j = 0; j < 4; ++j) {
          auto [along, length] = extend(basis, j);
          all.push_back(along), all.push_back(length);
        }
        return all;
      },
      basis);
}

// Elimination with pivots that are read: whole rows and masks, so that steps differ in numbers
// only.
TEST(Numerics, EliminationWithPivots) {
  constexpr int64_t kSize = 20;
  Tensor a = numbers({kSize, kSize}, 6), upper = a.clone(), right = numbers({kSize}, 9),
         y = right.clone(), rows = arange(kSize);
  eval({a, upper, right, y, rows});
  Compiles compiles;
  auto exchange = [](Tensor &x, int64_t i, int64_t j) {
    Tensor row = x[i].clone();
    x[i] = x[j];
    x[j] = row;
  };
  auto pivot_of = [&](const Tensor &upper, int64_t k) {
    return where(rows >= k, upper.select(1, k).abs(), -1.0).argmax();
  };
  auto eliminate = [&](Tensor upper, Tensor y, int64_t k, int64_t pivot) {
    if (pivot != k)
      exchange(upper, k, pivot), exchange(y, k, pivot);
    Tensor factors = where(rows > k, upper.select(1, k) / upper[k][k], 0.0);
    upper -= outer(factors, where(rows >= k, upper[k], 0.0));
    y -= factors * y[k];
  };
  for (int64_t k = 0; k < kSize; ++k)
    eliminate(upper, y, k, pivot_of(upper, k).item<int64_t>());
  EXPECT_LE(compiles.count(), 10u) << "with and without an exchange, for all columns";
  EXPECT_LT(upper.tril(-1).abs().max().item<double>(), 1e-14);
  auto substitute = [](const Tensor &upper, const Tensor &y) {
    Tensor x = zeros({kSize}, float64);
    for (int64_t k = kSize - 1; k >= 0; --k)
      x[k] = (y[k] - dot(upper[k], x)) / upper[k][k];
    return x;
  };
  EXPECT_LT((matmul(a, substitute(upper, y)) - right).abs().max().item<double>(), 1e-11);
  ThreeWays{.calls = 1}.compare(substitute, upper, y);
  ThreeWays{.calls = 1}.compare(
      [&](const Tensor &upper, const Tensor &y) {
        std::vector<Tensor> pivots;
        for (int64_t k = 0; k < 3; ++k) {
          pivots.push_back(pivot_of(upper, k));
          eliminate(upper, y, k, k + 2 * (k % 2));
        }
        return pivots;
      },
      a, right);
}

struct Graph {
  Ints from, to;
  Doubles length;
};
Graph some_graph(int64_t places, int64_t degree) {
  Graph graph;
  for (int64_t i = 0; i < places; ++i)
    for (int64_t k = 0; k < degree; ++k) {
      graph.from.push_back(i);
      graph.to.push_back((i * 17 + k * k * 131 + 7 * k + 1 + i * i % 97) % places);
      graph.length.push_back(double(1 + (i * 31 + k * 7) % 13));
    }
  return graph;
}

TEST(Numerics, ShortestPathsByRelaxation) {
  constexpr int64_t kPlaces = 200;
  const double infinity = std::numeric_limits<double>::infinity();
  Graph graph = some_graph(kPlaces, 2);
  Tensor from = Tensor::from(graph.from), to = Tensor::from(graph.to),
         length = Tensor::from(graph.length);
  Tensor distance = full({kPlaces}, infinity, float64);
  distance[0] = 0.0;
  distance.eval();
  auto relax = [&](const Tensor &distance) {
    Tensor next = scatter_reduce(distance, 0, to, distance.index_select(0, from) + length, "amin");
    return std::pair(next, (next < distance).any());
  };
  Compiles compiles;
  int rounds = 0;
  while (rounds++ < kPlaces) {
    auto [next, changed] = relax(distance);
    bool more = changed.item<bool>();
    distance = next;
    if (!more)
      break;
  }
  EXPECT_LE(compiles.count(), 2u);
  Doubles expected(kPlaces, infinity);
  expected[0] = 0;
  for (int64_t round = 0; round < kPlaces; ++round)
    for (size_t e = 0; e < graph.from.size(); ++e) {
      double &at = expected[size_t(graph.to[e])];
      at = std::min(at, expected[size_t(graph.from[e])] + graph.length[e]);
    }
  EXPECT_EQ(distance.to_vector<double>(), expected);
  Tensor start = full({kPlaces}, infinity, float64);
  start[0] = 0.0;
  ThreeWays{.calls = 5, .fed_back = 1}.compare(relax, start);
}

TEST(Numerics, ComponentsByTheSmallestNumber) {
  constexpr int64_t kPlaces = 300;
  Graph graph = some_graph(kPlaces, 1);
  Tensor from = Tensor::from(graph.from), to = Tensor::from(graph.to), component = arange(kPlaces);
  eval({from, to, component});
  auto spread = [&](const Tensor &component) {
    Tensor next = component.scatter_reduce(0, to, component.gather(0, from), "amin");
    next = next.scatter_reduce(0, from, next.gather(0, to), "amin");
    return next.gather(0, next);
  };
  Compiles compiles;
  for (bool changed = true; changed;) {
    Tensor next = spread(component);
    changed = !next.equal(component);
    component = next;
  }
  EXPECT_LE(compiles.count(), 3u);
  Ints expected(kPlaces);
  std::iota(expected.begin(), expected.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t e = 0; e < graph.from.size(); ++e) {
      int64_t &a = expected[size_t(graph.from[e])], &b = expected[size_t(graph.to[e])],
              least = std::min(a, b);
      changed = changed || a != b;
      a = b = least;
    }
  }
  EXPECT_EQ(component.to_vector<int64_t>(), expected);
  ThreeWays{.fed_back = 1}.compare(spread, arange(kPlaces));
}

// A hidden Markov model by Baum and Welch: the same likelihood from either end, and never a smaller
// one.
TEST(Numerics, AHiddenMarkovModel) {
  constexpr int64_t kTimes = 20, kStates = 3, kSymbols = 4;
  Tensor times = arange(kTimes), seen = (times * times * 3 + times / 2.0).to(int64) % kSymbols;
  Tensor moves = numbers({kStates, kStates}, 1).log_softmax(1),
         shows = numbers({kStates, kSymbols}, 2).log_softmax(1);
  Tensor first = numbers({kStates}, 3).log_softmax(0);
  eval({seen, moves, shows, first});
  auto improve = [&](const Tensor &first, const Tensor &moves, const Tensor &shows) {
    Tensor emitted = shows.index({Slice(), seen}).t(), forward = zeros({kTimes, kStates}, float64),
           backward = zeros_like(forward);
    forward[0] = first + emitted[0];
    for (int64_t t = 1; t < kTimes; ++t)
      forward[t] = logsumexp(forward[t - 1].unsqueeze(1) + moves, 0) + emitted[t];
    for (int64_t t = kTimes - 2; t >= 0; --t)
      backward[t] = logsumexp(moves + emitted[t + 1] + backward[t + 1], 1);
    Tensor likelihood = logsumexp(forward[kTimes - 1]),
           from_the_end = logsumexp(first + emitted[0] + backward[0]);
    Tensor states = forward + backward - likelihood;
    Tensor pairs = logsumexp(forward.slice(0, 0, -1).unsqueeze(2) + moves +
                                 (emitted + backward).slice(0, 1).unsqueeze(1) - likelihood,
                             0);
    Tensor counts = matmul(exp(states).t(), one_hot(seen, kSymbols).to(float64));
    return std::tuple(states[0], pairs - logsumexp(pairs, 1, true),
                      log(counts / counts.sum(1, true)), likelihood, from_the_end);
  };
  Compiles compiles;
  double before = -std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5; ++round) {
    Tensor likelihood, from_the_end;
    std::tie(first, moves, shows, likelihood, from_the_end) = improve(first, moves, shows);
    EXPECT_NEAR(likelihood.item<double>(), from_the_end.item<double>(), 1e-11);
    EXPECT_GE(likelihood.item<double>(), before - 1e-12);
    before = likelihood.item<double>();
  }
  EXPECT_LE(compiles.count(), 4u);
  ThreeWays{.fed_back = 3}.compare(improve, first, moves, shows);
}

// Cameras and points from what the cameras see, by Gauss and Newton: columns of the Jacobian are
// derivatives of a derivative.
TEST(Numerics, PointsAndCameras) {
  constexpr int64_t kPoints = 6, kCameras = 2, kUnknowns = 2 * kPoints + 3 * kCameras;
  auto project = [](const Tensor &v) {
    Tensor points = v.narrow(0, 0, 2 * kPoints).view({kPoints, 2}),
           cameras = v.narrow(0, 2 * kPoints, 3 * kCameras).view({kCameras, 3});
    Tensor c = cos(cameras.narrow(1, 0, 1)), s = sin(cameras.narrow(1, 0, 1)),
           x = points.select(1, 0), y = points.select(1, 1);
    Tensor u = c * x - s * y + cameras.narrow(1, 1, 1),
           w = s * x + c * y + cameras.narrow(1, 2, 1) + 3.0;
    return cat({(u / w).flatten(), w.flatten()});
  };
  Tensor truth = numbers({kUnknowns}, 1), seen = project(truth),
         v = truth + 0.05 * (numbers({kUnknowns}, 7) - 0.5);
  eval({seen, v});
  auto improve = [&](const Tensor &v) {
    Tensor z = v.detach().clone().requires_grad_(), r = project(z) - seen,
           weights = zeros_like(r).requires_grad_();
    Tensor products = grad({(r * weights).sum()}, {z}, true)[0];
    std::vector<Tensor> columns;
    for (int64_t i = 0; i < kUnknowns; ++i)
      columns.push_back(grad({products[i]}, {weights}, {.retain_graph = true})[0]);
    Tensor j = stack(columns, 1).detach(), r0 = r.detach();
    // A camera may turn all points with it: the least bit on the diagonal chooses one of these
    // solutions. Elimination in place.
    Tensor a = cat(
        {matmul(j.t(), j) + 1e-9 * eye(kUnknowns, {}, float64), matmul(j.t(), r0).unsqueeze(1)}, 1);
    for (int64_t k = 0; k < kUnknowns; ++k) {
      a[k] /= a[k][k].clone();
      Tensor factors = a.select(1, k).clone();
      factors[k] = 0.0;
      a -= outer(factors, a[k]);
    }
    return std::pair(z.detach() - a.select(1, kUnknowns), norm(r0));
  };
  Compiles compiles;
  Doubles residuals;
  for (int round = 0; round < 6; ++round) {
    Tensor residual;
    std::tie(v, residual) = improve(v);
    residuals.push_back(residual.item<double>());
  }
  EXPECT_GT(residuals[0], 1e-2);
  EXPECT_LT(residuals.back(), 1e-11);
  EXPECT_LE(compiles.count(), 3u);
  ThreeWays{.fed_back = 1}.compare(improve, truth + 0.05);
}

} // namespace
} // namespace weft::tests
