// Simulations and decompositions that write parts of a tensor in place, step by step, and methods
// that decide on the host. The numbers are those of PyTorch 2.15 in float64, of the same statements
// in Python, with sin(rate * torch.arange(n, dtype=torch.float64)) as input; called, jitted and
// traced they have the same bits.
#include <cmath>
#include <deque>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

Tensor wave(double rate, const Shape &shape, DType dtype) {
  int64_t n = 1;
  for (int64_t dim : shape)
    n *= dim;
  Tensor x = sin(rate * arange(n, float64)).reshape(shape).to(dtype);
  x.eval();
  return x;
}

class Simulations : public testing::TestWithParam<DType> {
protected:
  double tolerance() const {
    return GetParam() == float64 ? 1e-11 : 2e-5;
  }
  void expect(const Tensor &x, double value) {
    EXPECT_NEAR(x.item<double>(), value, tolerance() * std::fabs(value));
  }
};

// Gauss-Seidel in two colours: each step writes every other point of every other row.
TEST_P(Simulations, RedAndBlackPoints) {
  Tensor f = wave(0.7, {16, 16}, GetParam()), u = zeros({18, 18}, GetParam());
  auto relax = [&](const Tensor &u) {
    for (int colour = 0; colour < 2; ++colour)
      for (int64_t odd = 0; odd < 2; ++odd) {
        int64_t row = 1 + odd, column = 1 + (odd + colour) % 2;
        auto at = [&](int64_t dy, int64_t dx) {
          return u.slice(0, row + dy, row + dy + 15, 2).slice(1, column + dx, column + dx + 15, 2);
        };
        Tensor right = f.slice(0, row - 1, row + 14, 2).slice(1, column - 1, column + 14, 2);
        at(0, 0).copy_(0.25 * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - right));
      }
  };
  for (int step = 0; step < 10; ++step)
    relax(u);
  expect(u.abs().sum(), 79.3758857804);
  ThreeWays{.calls = 3}.compare(relax, u);
  ThreeWays{.written = {u}, .calls = 3}.compare([&] { relax(u); });
}

// A wave in two dims, whose three fields have shapes of their own.
TEST_P(Simulations, Maxwell) {
  DType dtype = GetParam();
  Tensor e = zeros({20, 20}, dtype), hx = zeros({20, 19}, dtype), hy = zeros({19, 20}, dtype);
  auto step = [](Tensor e, Tensor hx, Tensor hy, const auto &source) {
    hx.sub_(0.5 * (e.slice(1, 1) - e.slice(1, 0, -1)));
    hy.add_(0.5 * (e.slice(0, 1) - e.slice(0, 0, -1)));
    Tensor curl = hy.slice(0, 1).slice(1, 1, -1) - hy.slice(0, 0, -1).slice(1, 1, -1) -
                  hx.slice(0, 1, -1).slice(1, 1) + hx.slice(0, 1, -1).slice(1, 0, -1);
    e.slice(0, 1, -1).slice(1, 1, -1).add_(0.5 * curl);
    e[10][10].add_(source);
  };
  for (int i = 0; i < 15; ++i)
    step(e, hx, hy, std::sin(0.3 * i));
  expect(e.square().sum(), 2.13474106648);
  ThreeWays{.calls = 3}.compare(step, e, hx, hy, 0.25);
  ThreeWays{.calls = 3}.compare(step, e, hx, hy, scalar(0.3, dtype));
}

// What two bodies do to one another, for all pairs; and how far they get, by how fast they were.
TEST_P(Simulations, BodiesThatAttractOneAnother) {
  Tensor start = wave(1.3, {40, 3}, GetParam()) * 3, mass = wave(0.9, {40}, GetParam()) * 0.4 + 1;
  auto pull = [&](const Tensor &x) {
    Tensor d = x.unsqueeze(0) - x.unsqueeze(1), squares = d.square().sum(-1) + 0.01;
    return (d * (pow(squares, -1.5) * mass).unsqueeze(-1)).sum(1);
  };
  Tensor x = start.clone(), v = zeros({40, 3}, GetParam()), a = pull(x);
  auto leap = [&](Tensor x, Tensor v, Tensor a) {
    v.add_(0.005 * a);
    x.add_(0.01 * v);
    a = pull(x);
    v.add_(0.005 * a);
    return a;
  };
  for (int step = 0; step < 10; ++step)
    a = leap(x, v, a);
  expect((v.square().sum(1) * mass).sum(), 3.70745811647);
  Tensor first = (start * 0.1).detach().requires_grad_();
  auto sensitivity = [&] {
    Tensor x = start, v = first;
    for (int step = 0; step < 5; ++step) {
      v = v + 0.01 * pull(x);
      x = x + 0.01 * v;
    }
    return grad({x.square().sum()}, {first})[0];
  };
  expect(sensitivity().norm(), 2.33321960194);
  ThreeWays{.calls = 3}.compare(leap, x, v, a);
  ThreeWays().compare(sensitivity);
}

// Columns are written as they are found, and read by the later ones.
TEST_P(Simulations, GramSchmidt) {
  auto factor = [](const Tensor &a) {
    Tensor q = zeros({12, 9}, a.dtype()), r = zeros({9, 9}, a.dtype());
    for (int64_t j = 0; j < 9; ++j) {
      Tensor v = a.select(1, j).clone();
      for (int64_t i = 0; i < j; ++i) {
        r[i][j].copy_(dot(q.select(1, i), v));
        v.sub_(r[i][j] * q.select(1, i));
      }
      r[j][j].copy_(v.norm());
      q.select(1, j).copy_(v / r[j][j]);
    }
    return std::pair(q, r);
  };
  Tensor a = sin(5 * wave(2.1, {12, 9}, GetParam()));
  auto [q, r] = factor(a);
  EXPECT_LT((matmul(q, r) - a).abs().max().item<double>(), GetParam() == float64 ? 1e-14 : 1e-5);
  expect(r.square().sum(), 66.2849331663);
  ThreeWays{.calls = 1}.compare(factor, a);
}

INSTANTIATE_TEST_SUITE_P(DTypes, Simulations, testing::Values(float32, float64),
                         [](const testing::TestParamInfo<DType> &info) {
                           return std::string(name(info.param));
                         });

// Quasi-Newton with a memory of five steps and a line search: what it does next depends on numbers
// that the host reads. A second run finds all its programs.
TEST(HostMethods, LimitedMemoryQuasiNewton) {
  auto rosenbrock = [](const Tensor &x) {
    Tensor next = x.slice(0, 1), here = x.slice(0, 0, -1);
    return (100 * (next - here.square()).square() + (1 - here).square()).sum();
  };
  auto minimize = [&] {
    Tensor x = wave(1.1, {20}, float64).requires_grad_();
    std::deque<Tensor> steps, changes;
    std::deque<double> inverses;
    Tensor value = rosenbrock(x), g = grad({value}, {x})[0];
    double least = value.item<double>();
    for (int iteration = 0; iteration < 25; ++iteration) {
      Tensor direction = g;
      std::vector<double> weights(steps.size());
      for (size_t i = steps.size(); i-- > 0;) {
        weights[i] = inverses[i] * dot(steps[i], direction).item<double>();
        direction = direction - weights[i] * changes[i];
      }
      double scale = steps.empty()
                         ? 1e-3
                         : 1 / inverses.back() / dot(changes.back(), changes.back()).item<double>();
      direction = direction * scale;
      for (size_t i = 0; i < steps.size(); ++i) {
        double other = inverses[i] * dot(changes[i], direction).item<double>();
        direction = direction + (weights[i] - other) * steps[i];
      }
      double slope = dot(g, direction).item<double>(), length = 1, found = 0;
      Tensor to, at;
      for (int halving = 0; halving < 20; ++halving, length *= 0.5) {
        to = (x - length * direction).detach().requires_grad_();
        at = rosenbrock(to);
        found = at.item<double>();
        if (found <= least - 1e-4 * length * slope)
          break;
      }
      Tensor next = grad({at}, {to})[0], step = (to - x).detach(), change = next - g;
      double curvature = dot(step, change).item<double>();
      if (curvature > 1e-10) {
        steps.push_back(step), changes.push_back(change), inverses.push_back(1 / curvature);
        if (steps.size() > 5)
          steps.pop_front(), changes.pop_front(), inverses.pop_front();
      }
      x = to, g = next, least = found;
    }
    return least;
  };
  EXPECT_NEAR(minimize(), 15.0209173122, 1e-6 * 15.0209173122);
  Compiles compiles;
  minimize();
  EXPECT_EQ(compiles.count(), 0u);
  // Of what the host does with numbers in between, this is one try.
  ThreeWays{.calls = 3, .fed_back = 1}.compare(
      [&](const Tensor &x, double length) {
        Tensor here = x.detach().clone().requires_grad_(), value = rosenbrock(here),
               g = grad({value}, {here}, {.retain_graph = true})[0];
        return std::tuple(here.detach() - length * g, value.detach(), g, dot(g, g));
      },
      wave(1.1, {20}, float64), 1e-3);
}

// A curve is fitted by damped Gauss-Newton steps; the Jacobian comes from derivatives of a
// derivative, the system is solved by eliminating rows in place.
TEST(HostMethods, LevenbergAndMarquardt) {
  Tensor t = arange(60, float64) / 20;
  Tensor y = 2.5 * exp(-1.3 * t) * cos(3.0 * t + 0.4) + 0.01 * wave(1.7, {60}, float64);
  auto residual = [&](const Tensor &p) {
    return p[0] * exp(-p[1] * t) * cos(p[2] * t + p[3]) - y;
  };
  Tensor p = Tensor::from(std::vector<double>{1, 1, 2.5, 0}).requires_grad_();
  // Where a step leads, and the error there.
  auto step = [&](const Tensor &p, double damping) {
    Tensor r = residual(p), v = zeros({60}, float64).requires_grad_();
    Tensor transposed = grad({r}, {p}, GradOptions{.grad_outputs = {v}, .create_graph = true})[0];
    std::vector<Tensor> columns;
    for (int64_t k = 0; k < 4; ++k)
      columns.push_back(grad({transposed[k]}, {v}, GradOptions{.retain_graph = true})[0]);
    NoGrad no_grad;
    Tensor j = stack(columns, 1), a = matmul(j.t(), j), right = matmul(j.t(), r);
    a = a + damping * diag(a.diagonal());
    Tensor rows = cat({a, right.unsqueeze(1)}, 1);
    for (int64_t k = 0; k < 4; ++k) {
      rows[k].div_(rows[k][k].clone());
      for (int64_t i = 0; i < 4; ++i)
        if (i != k)
          rows[i].sub_(rows[i][k].clone() * rows[k]);
    }
    Tensor next = p - rows.select(1, 4);
    return std::pair(next, residual(next).square().sum());
  };
  double damping = 1e-2, best = 1e9;
  for (int iteration = 0; iteration < 12; ++iteration) {
    auto [next, errors] = step(p, damping);
    double error = errors.item<double>();
    if (error < best)
      best = error, p = next.detach().requires_grad_(), damping /= 3;
    else
      damping *= 2;
  }
  EXPECT_NEAR(best, 0.00294450903117, 1e-8 * 0.00294450903117);
  EXPECT_NEAR(p[1].item<double>(), 1.3007658619, 1e-6);
  ThreeWays{.calls = 3, .fed_back = 1}.compare(
      [&](const Tensor &p) { return step(p.detach().clone().requires_grad_(), 1e-2); },
      Tensor::from(std::vector<double>{1, 1, 2.5, 0}));
}

// Episodes of many lengths, whose actions the host reads: what was seen is kept in as many rows as
// the longest has, and all log-probabilities are computed at its end, with returns of 0 behind it.
TEST(HostMethods, EpisodesOfManyLengths) {
  constexpr int64_t kLongest = 64;
  Tensor up = wave(0.7, {32, 4}, float64).requires_grad_(),
         down = wave(0.3, {2, 32}, float64).requires_grad_();
  optim::Adam optimizer({up, down}, {.lr = 1e-2});
  auto policy = [&](const Tensor &x) { return linear(tanh(linear(x, up)), down); };
  auto train = [&](int64_t episode) {
    Tensor seen = zeros({kLongest, 4}, float64), state = wave(0.3 + double(episode), {4}, float64);
    std::vector<int64_t> actions(kLongest);
    std::vector<double> returns(kLongest);
    for (int64_t t = 0, length = 10 + episode * 7 % 53; t < length; ++t) {
      NoGrad no_grad;
      seen[t] = state;
      Tensor score = policy(state) + 3 * wave(0.9 + double(t), {2}, float64);
      actions[t] = score.argmax().item<int64_t>();
      returns[t] = std::cos(double(t));
      state = tanh(0.9 * state + (actions[t] ? 0.1 : -0.1));
    }
    Tensor taken = Tensor::from(actions, {kLongest, 1});
    Tensor chosen = log_softmax(policy(seen), -1).gather(1, taken).squeeze({1});
    optimizer.zero_grad();
    Tensor loss = -(chosen * Tensor::from(returns)).sum();
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  };
  for (int64_t episode = 0; episode < 5; ++episode)
    train(episode);
  Compiles compiles;
  double loss = 0;
  for (int64_t episode = 5; episode < 12; ++episode)
    loss = train(episode);
  EXPECT_EQ(compiles.count(), 0u);
  EXPECT_NEAR(loss, 0.0175264962772, 1e-9 * std::fabs(0.0175264962772));
}

} // namespace
} // namespace weft::tests
