// Algorithms of statistics, physics and search, as users write them, against the same in plain C++
// or a closed form: the numbers are right, a loop compiles a fixed number of programs, and what it
// repeats has the same bits called, jitted and traced.
#include <cmath>
#include <complex>
#include <numbers>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/nn/nn.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

using Doubles = std::vector<double>;

void expect_near(const Tensor &actual, const Doubles &expected, double tolerance) {
  Doubles numbers = actual.to_vector<double>();
  ASSERT_EQ(numbers.size(), expected.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(numbers[i], expected[i], tolerance) << i;
}

// The likeliest path through a hidden Markov model, whose back pointers are followed on the host.
TEST(Algorithms, Viterbi) {
  constexpr int64_t kStates = 5, kSymbols = 4, kSteps = 40;
  manual_seed(1);
  Tensor moves = log_softmax(randn({kStates, kStates}, float64) * 2, 1),
         emits = log_softmax(randn({kStates, kSymbols}, float64) * 2, 1);
  Tensor symbols = randint(0, kSymbols, {kSteps});
  eval({moves, emits, symbols});
  Doubles move = moves.to_vector<double>(), emit = emits.to_vector<double>();
  std::vector<int64_t> seen = symbols.to_vector<int64_t>();

  // The best score that ends in each state, and where each step comes from.
  auto forward = [](const Tensor &moves, const Tensor &emits, const Tensor &symbols) {
    Tensor score = emits.index({Slice(), symbols[0]});
    std::vector<Tensor> pointers;
    for (int64_t t = 1; t < kSteps; ++t) {
      Tensor arriving = score.unsqueeze(1) + moves; // [from, to]
      pointers.push_back(argmax(arriving, 0));
      score = max(arriving, {0}) + emits.index({Slice(), symbols[t]});
    }
    return std::pair(score, stack(pointers));
  };
  Compiles compiles;
  auto [score, pointers] = forward(moves, emits, symbols);
  std::vector<int64_t> back = pointers.to_vector<int64_t>(), path = {argmax(score).item<int64_t>()};
  for (int64_t t = kSteps - 2; t >= 0; --t)
    path.push_back(back[static_cast<size_t>(t * kStates + path.back())]);
  EXPECT_LE(compiles.count(), 4u);

  Doubles best(kStates);
  for (size_t s = 0; s < kStates; ++s)
    best[s] = emit[s * kSymbols + static_cast<size_t>(seen[0])];
  for (size_t t = 1; t < kSteps; ++t) {
    Doubles next(kStates, -INFINITY);
    for (size_t from = 0; from < kStates; ++from)
      for (size_t to = 0; to < kStates; ++to)
        next[to] = std::max(next[to], best[from] + move[from * kStates + to]);
    for (size_t s = 0; s < kStates; ++s)
      best[s] = next[s] + emit[s * kSymbols + static_cast<size_t>(seen[t])];
  }
  expect_near(score, best, 1e-12);
  // The path has the score that it is said to have.
  double total = 0;
  std::reverse(path.begin(), path.end());
  for (size_t t = 0; t < kSteps; ++t) {
    size_t at = static_cast<size_t>(path[t]);
    total += emit[at * kSymbols + static_cast<size_t>(seen[t])] +
             (t > 0 ? move[static_cast<size_t>(path[t - 1]) * kStates + at] : 0);
  }
  EXPECT_NEAR(total, *std::max_element(best.begin(), best.end()), 1e-10);
  ThreeWays{.calls = 1}.compare(forward, moves, emits, symbols);
}

// A point that moves at constant speed, seen through noise; each step reads its estimate.
TEST(Algorithms, AKalmanFilter) {
  constexpr double kStep = 0.1, kNoise = 0.04, kDrift = 1e-3;
  Tensor f = tensor({1., kStep, 0., 1.}).reshape({2, 2}),
         q = kDrift * tensor({1., 0., 0., 1.}).reshape({2, 2}),
         h = tensor({1., 0.}).reshape({1, 2});
  Tensor x = zeros({2, 1}, float64), p = tensor({1., 0., 0., 1.}).reshape({2, 2}), one = p;
  eval({f, q, h, x, p});
  double px = 0, v = 0, p00 = 1, p01 = 0, p11 = 1;
  auto filter = [&](Tensor x, Tensor p, const auto &seen) {
    x = matmul(f, x), p = matmul(matmul(f, p), f.transpose(0, 1)) + q;
    Tensor gain = matmul(p, h.transpose(0, 1)) / (matmul(matmul(h, p), h.transpose(0, 1)) + kNoise);
    x = x + gain * (seen - matmul(h, x));
    return std::pair(x, matmul(one - matmul(gain, h), p));
  };
  Compiles compiles;
  for (int t = 0; t < 50; ++t) {
    double seen = 0.7 * kStep * t + 0.2 * std::sin(7.0 * t);
    std::tie(x, p) = filter(x, p, seen);
    // The same with plain numbers.
    px += kStep * v;
    double a00 = p00 + 2 * kStep * p01 + kStep * kStep * p11 + kDrift, a01 = p01 + kStep * p11,
           a11 = p11 + kDrift;
    double k0 = a00 / (a00 + kNoise), k1 = a01 / (a00 + kNoise), off = seen - px;
    px += k0 * off, v += k1 * off;
    p00 = (1 - k0) * a00, p01 = (1 - k0) * a01, p11 = a11 - k1 * a01;
    expect_near(x, {px, v}, 1e-9);
  }
  EXPECT_LE(compiles.count(), 2u);
  EXPECT_NEAR(p.sum().item<double>(), p00 + 2 * p01 + p11, 1e-9);
  ThreeWays{.calls = 3, .fed_back = 2}.compare(filter, zeros({2, 1}, float64), one, 0.7);
  ThreeWays{.calls = 3, .fed_back = 2}.compare(filter, zeros({2, 1}, float64), one,
                                               scalar(0.7, float64));
}

// How many iterations each point of a grid stays near 0: a loop on the host that asks whether
// anything still moves.
TEST(Algorithms, Mandelbrot) {
  constexpr int64_t kWidth = 48, kHeight = 32;
  constexpr int kMost = 60;
  Tensor cx =
      (arange(kWidth, float64) * (3.0 / kWidth) - 2.2).unsqueeze(0).expand({kHeight, kWidth});
  Tensor cy =
      (arange(kHeight, float64) * (2.4 / kHeight) - 1.2).unsqueeze(1).expand({kHeight, kWidth});
  Tensor x = zeros({kHeight, kWidth}, float64), y = zeros({kHeight, kWidth}, float64),
         count = zeros({kHeight, kWidth}, int32);
  eval({x, y, count});
  auto near = [](const Tensor &x, const Tensor &y) {
    return x * x + y * y <= 4;
  };
  auto move = [&](const Tensor &x, const Tensor &y, const Tensor &count, const Tensor &inside) {
    return std::tuple(where(inside, x * x - y * y + cx, x), where(inside, 2 * x * y + cy, y),
                      count + inside.to(int32));
  };
  Compiles compiles;
  int iterations = 0;
  for (; iterations < kMost; ++iterations) {
    Tensor inside = near(x, y);
    if (!any(inside).item<bool>())
      break;
    std::tie(x, y, count) = move(x, y, count, inside);
  }
  EXPECT_LE(compiles.count(), 3u);
  std::vector<int32_t> counts = count.to_vector<int32_t>();
  for (int64_t i = 0; i < kHeight; ++i)
    for (int64_t j = 0; j < kWidth; ++j) {
      double zx = 0, zy = 0, px = static_cast<double>(j) * (3.0 / kWidth) - 2.2,
             py = static_cast<double>(i) * (2.4 / kHeight) - 1.2;
      int expected = 0;
      while (expected < kMost && zx * zx + zy * zy <= 4) {
        double next = zx * zx - zy * zy + px;
        zy = 2 * zx * zy + py, zx = next, ++expected;
      }
      ASSERT_EQ(counts[static_cast<size_t>(i * kWidth + j)], expected) << i << " " << j;
    }
  Tensor zero = zeros({kHeight, kWidth}, float64);
  ThreeWays{.calls = 4, .fed_back = 3}.compare(
      [&](const Tensor &x, const Tensor &y, const Tensor &count) {
        Tensor inside = near(x, y);
        return std::tuple_cat(move(x, y, count, inside), std::tuple(any(inside)));
      },
      zero, zero, zeros({kHeight, kWidth}, int32));
}

// The heat equation by explicit steps in place: a mode of the sine decays by a factor a step that
// is known.
TEST(Algorithms, HeatInARod) {
  constexpr int64_t kPoints = 65;
  constexpr double kRate = 0.4;
  double angle = std::numbers::pi / (kPoints - 1);
  Tensor u = sin(arange(kPoints, float64) * (3 * angle));
  eval({u});
  auto diffuse = [](const Tensor &u) {
    Tensor inner = u.slice(0, 1, -1);
    inner += kRate * (u.slice(0, 2) - 2 * inner + u.slice(0, 0, -2));
  };
  Compiles compiles;
  for (int step = 0; step < 200; ++step) {
    diffuse(u);
    if (step % 50 == 49)
      u.eval();
  }
  double decay = std::pow(1 - 2 * kRate * (1 - std::cos(3 * angle)), 200);
  Doubles expected;
  for (int64_t i = 0; i < kPoints; ++i)
    expected.push_back(decay * std::sin(3 * angle * static_cast<double>(i)));
  expect_near(u, expected, 1e-10);
  EXPECT_LE(compiles.count(), 3u);
  auto several = [&](const Tensor &u) {
    for (int step = 0; step < 7; ++step)
      diffuse(u);
  };
  ThreeWays().compare(several, u);
  ThreeWays{.written = {u}}.compare([&] { several(u); });
}

// Hamiltonian Monte Carlo (Neal 2011) on a correlated Gaussian, many chains at once: the acceptance
// is a select, so that nothing is read in the loop.
TEST(Algorithms, HamiltonianMonteCarlo) {
  constexpr int64_t kChains = 512;
  constexpr int kLeaps = 8;
  constexpr double kStep = 0.25;
  manual_seed(5);
  Tensor precision = tensor({2.f, -1.2f, -1.2f, 1.5f})
                         .reshape({2, 2}); // its inverse: 1 / 1.56 [[1.5, 1.2], [1.2, 2]]
  auto energy = [&](const Tensor &q) {
    return 0.5 * (matmul(q, precision) * q).sum(1);
  };
  auto slope = [&](const Tensor &at) {
    Tensor q = at.detach().requires_grad_();
    return grad({energy(q).sum()}, {q})[0];
  };
  Tensor q = zeros({kChains, 2}), first = zeros({2}), second = zeros({2, 2}), accepted = zeros({});
  eval({precision, q, first, second, accepted});
  // The next place of each chain, and which of them moved.
  auto walk = [&](const Tensor &q) {
    Tensor p0 = randn({kChains, 2}), p = p0, next = q;
    p = p - 0.5 * kStep * slope(next);
    for (int leap = 0; leap < kLeaps; ++leap) {
      next = next + kStep * p;
      p = p - (leap + 1 < kLeaps ? kStep : 0.5 * kStep) * slope(next);
    }
    Tensor change = energy(q) + 0.5 * p0.square().sum(1) - energy(next) - 0.5 * p.square().sum(1);
    Tensor take = log(rand({kChains})) < change;
    return std::pair(where(take.unsqueeze(1), next, q), take);
  };
  Compiles compiles;
  constexpr int kWarm = 20, kDraws = 100;
  for (int draw = 0; draw < kWarm + kDraws; ++draw) {
    Tensor take;
    std::tie(q, take) = walk(q);
    if (draw >= kWarm) {
      first = first + q.mean({0}), second = second + matmul(q.transpose(0, 1), q) / kChains;
      accepted = accepted + take.to(float32).mean();
    }
    eval({q, first, second, accepted});
  }
  // The first slope, the others in two forms (a point that nobody needs any more is overwritten), a
  // draw with and without statistics.
  EXPECT_LE(compiles.count(), 5u);
  EXPECT_GT((accepted / kDraws).item<float>(), 0.8f);
  expect_near(first / kDraws, {0, 0}, 0.05);
  expect_near(second.flatten() / kDraws, {1.5 / 1.56, 1.2 / 1.56, 1.2 / 1.56, 2 / 1.56}, 0.06);
  ThreeWays{.calls = 3, .fed_back = 1}.compare(walk, zeros({kChains, 2}));
}

// Q-learning with a target network and batches from a replay buffer, on a walk of known values:
// left ends with 0, right with 1.
TEST(Algorithms, QLearningOnAWalk) {
  constexpr int64_t kPlaces = 6;
  constexpr double kDiscount = 0.9;
  manual_seed(7);
  std::vector<int64_t> from, to, action;
  Doubles reward, going;
  for (int64_t place = 0; place < kPlaces; ++place)
    for (int64_t a = 0; a < 2; ++a) {
      int64_t next = place + (a ? 1 : -1);
      bool ends = next < 0 || next >= kPlaces;
      from.push_back(place), action.push_back(a), to.push_back(ends ? 0 : next);
      reward.push_back(next >= kPlaces ? 1 : 0), going.push_back(ends ? 0 : 1);
    }
  int64_t all = static_cast<int64_t>(from.size());
  Tensor froms = Tensor::from(from, {all}), tos = Tensor::from(to, {all}),
         actions = Tensor::from(action, {all});
  Tensor rewards = Tensor::from(reward, {all}).to(float32),
         goings = Tensor::from(going, {all}).to(float32);
  nn::Linear online(kPlaces, 2), target(kPlaces, 2);
  target.load_state(online.state());
  optim::Adam optimizer(online.parameters(), {.lr = 0.05});
  auto learn = [&] {
    Tensor rows = randint(0, all, {16});
    auto of = [&](const Tensor &column) {
      return column.index({rows});
    };
    Tensor best;
    {
      NoGrad no_grad;
      best = max(target(one_hot(of(tos), kPlaces).to(float32)), {1});
    }
    Tensor chosen =
        gather(online(one_hot(of(froms), kPlaces).to(float32)), 1, of(actions).unsqueeze(1))
            .squeeze({1});
    Tensor loss = smooth_l1_loss(chosen, of(rewards) + kDiscount * of(goings) * best);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  Compiles compiles;
  for (int step = 0; step < 600; ++step) {
    learn();
    if (step % 20 == 19)
      target.load_state(online.state());
  }
  uint64_t programs = compiles.count();
  EXPECT_LE(programs, 5u);
  Doubles values =
      max(online(one_hot(arange(kPlaces), kPlaces).to(float32)), {1}).to_vector<double>();
  for (int64_t place = 0; place < kPlaces; ++place)
    EXPECT_NEAR(values[static_cast<size_t>(place)],
                std::pow(kDiscount, static_cast<double>(kPlaces - 1 - place)), 0.05)
        << place;
  ThreeWays{.written = written_by(optimizer), .calls = 4}.compare(learn);
}

// Two Gaussians found by expectation and maximization, until the likelihood stands still.
TEST(Algorithms, AMixtureByExpectationAndMaximization) {
  manual_seed(11);
  Tensor x = cat({randn({300}, float64) * 0.5 - 2, randn({100}, float64) + 3});
  Tensor means = tensor({-1., 1.}), deviations = tensor({1., 1.}), shares = tensor({0.5, 0.5});
  eval({x, means, deviations, shares});
  // Which share of each number each Gaussian has, and the likelihood.
  auto expectation = [&](const Tensor &means, const Tensor &deviations, const Tensor &shares) {
    Tensor z = (x.unsqueeze(1) - means) / deviations;
    Tensor joint =
        log(shares) - log(deviations) - 0.5 * z.square() - 0.5 * std::log(2 * std::numbers::pi);
    Tensor total = logsumexp(joint, {1}, true);
    return std::pair(exp(joint - total), total.sum());
  };
  auto maximization = [&](const Tensor &weight) {
    Tensor counts = weight.sum({0}), means = (weight * x.unsqueeze(1)).sum({0}) / counts;
    return std::tuple(means, sqrt((weight * (x.unsqueeze(1) - means).square()).sum({0}) / counts),
                      counts / x.size(0));
  };
  Compiles compiles;
  double before = -INFINITY;
  int iterations = 0;
  for (; iterations < 100; ++iterations) {
    auto [weight, total] = expectation(means, deviations, shares);
    double likelihood = total.item<double>();
    EXPECT_GE(likelihood, before - 1e-9) << "it never falls";
    if (likelihood - before < 1e-9)
      break;
    before = likelihood;
    std::tie(means, deviations, shares) = maximization(weight);
  }
  EXPECT_LT(iterations, 100);
  EXPECT_LE(compiles.count(), 4u);
  expect_near(means, {-2, 3}, 0.25);
  expect_near(deviations, {0.5, 1}, 0.2);
  expect_near(shares, {0.75, 0.25}, 0.05);
  ThreeWays{.calls = 4, .fed_back = 3}.compare(
      [&](const Tensor &means, const Tensor &deviations, const Tensor &shares) {
        auto [weight, likelihood] = expectation(means, deviations, shares);
        return std::tuple_cat(maximization(weight), std::tuple(likelihood));
      },
      tensor({-1., 1.}), tensor({1., 1.}), tensor({0.5, 0.5}));
}

// The price of a call option by simulation, and its derivatives through the paths, against Black
// and Scholes.
TEST(Algorithms, AnOptionAndItsGreeks) {
  constexpr double kRate = 0.03, kYears = 1, kStrike = 105;
  constexpr int kSteps = 12;
  manual_seed(13);
  Tensor spot = full({}, 100.0, float64).requires_grad_(),
         volatility = full({}, 0.2, float64).requires_grad_();
  double dt = kYears / kSteps;
  auto value = [&](int64_t paths) {
    Tensor half = randn({paths, kSteps}, float64), noise = cat({half, -half}); // antithetic
    Tensor path =
        ((kRate - 0.5 * volatility.square()) * dt + volatility * std::sqrt(dt) * noise).sum({1});
    Tensor price = std::exp(-kRate * kYears) * relu(spot * exp(path) - kStrike).mean();
    price.backward();
    return price;
  };
  Tensor price = value(50000);
  auto phi = [](double x) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0));
  };
  double d1 = (std::log(100 / kStrike) + (kRate + 0.02) * kYears) / 0.2, d2 = d1 - 0.2;
  EXPECT_NEAR(price.item<double>(), 100 * phi(d1) - kStrike * std::exp(-kRate) * phi(d2), 0.1);
  EXPECT_NEAR(spot.grad().item<double>(), phi(d1), 5e-3);
  EXPECT_NEAR(volatility.grad().item<double>(),
              100 * std::exp(-d1 * d1 / 2) / std::sqrt(2 * std::numbers::pi), 0.6);
  ThreeWays{.written = {spot, volatility}}.compare(value, int64_t(500));
}

// Lorenz's attractor by Runge and Kutta's steps, and how far two starts drift apart.
TEST(Algorithms, TheLorenzAttractor) {
  auto velocity = [](const Tensor &s) {
    Tensor x = s[0], y = s[1], z = s[2];
    return stack({10 * (y - x), x * (28 - z) - y, x * y - 8.0 / 3 * z});
  };
  Tensor s = tensor({1., 1. + 1e-9, 1., 1., 1., 1.}).reshape({3, 2});
  eval({s});
  std::array<std::array<double, 3>, 2> plain = {{{1, 1, 1}, {1 + 1e-9, 1, 1}}};
  constexpr double kStep = 0.01;
  auto move = [&](const Tensor &s) {
    Tensor k1 = velocity(s), k2 = velocity(s + kStep / 2 * k1), k3 = velocity(s + kStep / 2 * k2),
           k4 = velocity(s + kStep * k3);
    return s + kStep / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  };
  Compiles compiles;
  for (int step = 0; step < 300; ++step) {
    s = move(s);
    s.eval();
    for (auto &p : plain) {
      auto of = [](const std::array<double, 3> &q) {
        return std::array<double, 3>{10 * (q[1] - q[0]), q[0] * (28 - q[2]) - q[1],
                                     q[0] * q[1] - 8.0 / 3 * q[2]};
      };
      auto moved = [&](double by, const std::array<double, 3> &k) {
        return std::array<double, 3>{p[0] + by * k[0], p[1] + by * k[1], p[2] + by * k[2]};
      };
      auto a = of(p), b = of(moved(kStep / 2, a)), c = of(moved(kStep / 2, b)),
           d = of(moved(kStep, c));
      for (size_t i = 0; i < 3; ++i)
        p[i] += kStep / 6 * (a[i] + 2 * b[i] + 2 * c[i] + d[i]);
    }
  }
  EXPECT_LE(compiles.count(), 2u);
  expect_near(s.transpose(0, 1).flatten(),
              {plain[0][0], plain[0][1], plain[0][2], plain[1][0], plain[1][1], plain[1][2]}, 1e-6);
  double apart = norm(s.select(1, 0) - s.select(1, 1)).item<double>();
  EXPECT_TRUE(apart > 1e-9 && apart < 1e-5) << apart;
  ThreeWays{.calls = 5, .fed_back = 1}.compare(move, s);
}

// The edit distance of many pairs of words at once, along the diagonals of its table.
TEST(Algorithms, EditDistances) {
  constexpr int64_t kPairs = 20, kLength = 12;
  manual_seed(17);
  Tensor a = randint(0, 3, {kPairs, kLength}), b = randint(0, 3, {kPairs, kLength});
  eval({a, b});
  Compiles compiles;
  // Row i of the table in place: left neighbours by a running minimum, min over k of (best[k] - k)
  // + j.
  Tensor columns = arange(kLength + 1), row = columns.expand({kPairs, kLength + 1}).clone();
  auto next = [&](const Tensor &row, const Tensor &letter) {
    Tensor differs = (b != letter).to(int64);
    Tensor above = row + 1;
    Tensor inner = minimum(above.slice(1, 1), row.slice(1, 0, -1) + differs);
    Tensor best = cat({above.slice(1, 0, 1), inner}, 1) - columns;
    // The running minimum by doubling.
    for (int64_t reach = 1; reach <= kLength; reach *= 2) {
      Tensor shifted = pad(best.slice(1, 0, -reach), {reach, 0}, PadMode::kConstant, 1000);
      best = minimum(best, shifted);
    }
    return best + columns;
  };
  for (int64_t i = 0; i < kLength; ++i) {
    row = next(row, a.narrow(1, i, 1));
    row.eval();
  }
  EXPECT_LE(compiles.count(), 3u);
  std::vector<int64_t> first = a.to_vector<int64_t>(), second = b.to_vector<int64_t>(),
                       found = row.select(1, kLength).to_vector<int64_t>();
  for (int64_t p = 0; p < kPairs; ++p) {
    std::vector<int64_t> now(kLength + 1);
    for (int64_t j = 0; j <= kLength; ++j)
      now[static_cast<size_t>(j)] = j;
    for (int64_t i = 0; i < kLength; ++i) {
      std::vector<int64_t> next = {i + 1};
      for (int64_t j = 0; j < kLength; ++j) {
        int64_t same = first[static_cast<size_t>(p * kLength + i)] !=
                       second[static_cast<size_t>(p * kLength + j)];
        next.push_back(std::min({now[static_cast<size_t>(j)] + same,
                                 now[static_cast<size_t>(j + 1)] + 1, next.back() + 1}));
      }
      now = next;
    }
    EXPECT_EQ(found[static_cast<size_t>(p)], now.back()) << p;
  }
  ThreeWays{.fed_back = 1}.compare(next, columns.expand({kPairs, kLength + 1}), a.narrow(1, 0, 1));
}

} // namespace
} // namespace weft::tests
