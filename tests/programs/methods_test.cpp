// Numerical methods as users write them on tensors: writes in place through views, loops that look
// at values, derivatives of derivatives. The numbers are right, the number of programs does not
// grow with that of the iterations, and what they repeat has the same bits called, jitted and
// traced.
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "tests/support/compiles.h"
#include "weft/weft.h"

namespace weft::tests {
namespace {

double largest(const Tensor &x) {
  return x.abs().max().item<double>();
}

// Householder's reflections, in place on the part that is left.
TEST(Methods, QrInPlace) {
  manual_seed(1);
  constexpr int64_t kRows = 12, kColumns = 6;
  Tensor a = randn({kRows, kColumns}, float64);
  a.eval();
  auto factor = [&](const Tensor &a, bool step_by_step) {
    Tensor r = a.clone(), q = eye(kRows, {}, float64);
    for (int64_t k = 0; k < kColumns; ++k) {
      Tensor v = r.index({Slice(k), k}).clone();
      v[0] += where(v[0] >= 0, 1.0, -1.0) * norm(v);
      v = v / norm(v);
      Tensor below = r.index({Slice(k), Slice(k)}), right = q.index({Slice(), Slice(k)});
      below -= 2 * outer(v, matmul(v, below));
      right -= 2 * outer(matmul(right, v), v);
      if (step_by_step)
        eval({r, q});
    }
    return std::pair(q, r);
  };
  auto [q, r] = factor(a, false);
  EXPECT_LT(largest(matmul(q, r) - a), 1e-13);
  EXPECT_LT(largest(matmul(q.t(), q) - eye(kRows, {}, float64)), 1e-13);
  EXPECT_LT(largest(tril(r, -1)), 1e-13);
  Compiles compiles;
  EXPECT_LT(largest(factor(a, true).second - r), 1e-13);
  uint64_t first = compiles.count();
  EXPECT_LE(first, 2u * kColumns + 3) << "each step has a size of its own";
  factor(a, true);
  EXPECT_EQ(compiles.count(), first);
  ThreeWays{.calls = 1}.compare(factor, a, false);
}

// Red cells, then black ones, each in two slices with steps.
TEST(Methods, GaussAndSeidelOnAGrid) {
  constexpr int64_t kSize = 18;
  Tensor u = zeros({kSize, kSize}, float64);
  u.eval();
  std::vector<double> expected(kSize * kSize);
  auto relax = [](Tensor u) {
    for (int64_t color = 0; color < 2; ++color)
      for (int64_t half = 0; half < 2; ++half) {
        int64_t i = 1 + half, j = 1 + (half + color) % 2;
        u.index({Slice(i, -1, 2), Slice(j, -1, 2)}) =
            0.25 * (u.index({Slice(i - 1, -2, 2), Slice(j, -1, 2)}) +
                    u.index({Slice(i + 1, {}, 2), Slice(j, -1, 2)}) +
                    u.index({Slice(i, -1, 2), Slice(j - 1, -2, 2)}) +
                    u.index({Slice(i, -1, 2), Slice(j + 1, {}, 2)}) + 1e-3);
      }
  };
  Compiles compiles;
  for (int sweep = 0; sweep < 20; ++sweep) {
    relax(u);
    u.eval();
    for (size_t color = 0; color < 2; ++color)
      for (size_t i = 1; i + 1 < kSize; ++i)
        for (size_t j = 1; j + 1 < kSize; ++j)
          if ((i + j) % 2 == color) {
            double *at = &expected[i * kSize + j];
            *at = 0.25 * (at[-kSize] + at[kSize] + at[-1] + at[1] + 1e-3);
          }
  }
  EXPECT_LE(compiles.count(), 1u);
  std::vector<double> found = u.to_vector<double>();
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-15);
  ThreeWays{.calls = 3}.compare(relax, u);
}

TEST(Methods, ALifeOfGliders) {
  constexpr int64_t kSize = 20;
  Tensor cells = zeros({kSize, kSize}, boolean);
  for (auto [i, j] : {std::pair(1, 2), {2, 3}, {3, 1}, {3, 2}, {3, 3}})
    cells.index({i, j}) = true;
  Tensor start = cells.clone();
  eval({cells, start});
  auto live = [](const Tensor &cells) {
    Tensor alive = cells.to(uint8), neighbours = zeros_like(alive);
    for (int64_t down : {-1, 0, 1})
      for (int64_t right : {-1, 0, 1})
        if (down || right)
          neighbours += roll(alive, {down, right}, {0, 1});
    return (neighbours == 3) | (cells & (neighbours == 2));
  };
  Compiles compiles;
  for (int64_t step = 0; step < 4 * kSize; ++step) {
    cells = live(cells);
    ASSERT_EQ(cells.sum().item<int64_t>(), 5);
  }
  EXPECT_LE(compiles.count(), 2u);
  EXPECT_TRUE(equal(cells, start)) << "once around the torus";
  ThreeWays{.calls = 3, .fed_back = 1}.compare(live, start);
}

// Cooley and Tukey's, with the real and the imaginary part in two tensors; its derivative is the
// transform of what weighs it.
TEST(Methods, AFourierTransformAndItsDerivative) {
  constexpr int64_t kBits = 6, kSize = 1 << kBits;
  std::vector<int64_t> reversed(kSize);
  for (size_t i = 0; i < kSize; ++i)
    for (size_t b = 0; b < kBits; ++b)
      reversed[i] |= static_cast<int64_t>(i >> b & 1) << (kBits - 1 - b);
  manual_seed(2);
  Tensor x = randn({kSize}, float64).requires_grad_();
  auto transform = [&](const Tensor &x) {
    Tensor re = x.index({Tensor::from(reversed)}), im = zeros({kSize}, float64);
    for (int64_t half = 1; half < kSize; half *= 2) {
      Tensor angle = arange(half, float64) * (-std::numbers::pi / static_cast<double>(half)),
             c = cos(angle), s = sin(angle);
      auto r = unbind(re.reshape({-1, 2, half}), 1), i = unbind(im.reshape({-1, 2, half}), 1);
      Tensor odd_re = c * r[1] - s * i[1], odd_im = c * i[1] + s * r[1];
      re = stack({r[0] + odd_re, r[0] - odd_re}, 1).flatten();
      im = stack({i[0] + odd_im, i[0] - odd_im}, 1).flatten();
    }
    return std::pair(re, im);
  };
  auto [re, im] = transform(x);
  std::vector<double> at = x.to_vector<double>(), real = re.to_vector<double>(),
                      imaginary = im.to_vector<double>();
  for (int64_t k = 0; k < kSize; ++k) {
    std::complex<double> sum = 0;
    for (int64_t i = 0; i < kSize; ++i)
      sum += at[static_cast<size_t>(i)] *
             std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * i % kSize) / kSize);
    EXPECT_NEAR(real[static_cast<size_t>(k)], sum.real(), 1e-12);
    EXPECT_NEAR(imaginary[static_cast<size_t>(k)], sum.imag(), 1e-12);
  }
  // Parseval: the sum of squares is n times that of x.
  EXPECT_LT(largest(grad({(re.square() + im.square()).sum()}, {x})[0] - 2 * kSize * x), 1e-11);
  ThreeWays().compare(
      [&](const Tensor &at) {
        Tensor x = at.clone().requires_grad_();
        auto [re, im] = transform(x);
        Tensor g = grad({(re.square() + im.square()).sum()}, {x}, {.retain_graph = true})[0];
        return std::tuple(re.detach(), im.detach(), g);
      },
      x.detach());
}

// Limited-memory BFGS (Nocedal 1980): the last steps in rings of rows, written at a place that goes
// around.
TEST(Methods, QuasiNewtonWithARingOfSteps) {
  constexpr int64_t kSize = 10, kKept = 5;
  auto value = [](const Tensor &x) {
    Tensor head = x.narrow(0, 0, kSize - 1), tail = x.narrow(0, 1, kSize - 1);
    return (100 * (tail - head.square()).square() + (1 - head).square()).sum();
  };
  auto with_gradient = [&](const Tensor &x) {
    Tensor at = x.detach().clone().requires_grad_(), y = value(at);
    return std::pair(y.detach(), grad({y}, {at})[0]);
  };
  Tensor x = zeros({kSize}, float64), steps = zeros({kKept, kSize}, float64),
         changes = zeros({kKept, kSize}, float64);
  Tensor weights = zeros({kKept}, float64);
  eval({x, steps, changes, weights});
  auto [y, g] = with_gradient(x);
  auto direction = [&](const Tensor &g, int64_t iteration) {
    Tensor d = g;
    std::vector<Tensor> alphas;
    int64_t known = std::min(iteration, kKept);
    auto ring = [&](int64_t back) {
      return (iteration - 1 - back) % kKept;
    };
    for (int64_t i = 0; i < known; ++i) {
      alphas.push_back(weights[ring(i)] * dot(steps[ring(i)], d));
      d = d - alphas.back() * changes[ring(i)];
    }
    if (known > 0)
      d = d * (dot(steps[ring(0)], changes[ring(0)]) / changes[ring(0)].square().sum());
    for (int64_t i = known; i-- > 0;)
      d = d + (alphas[static_cast<size_t>(i)] - weights[ring(i)] * dot(changes[ring(i)], d)) *
                  steps[ring(i)];
    return d;
  };
  auto keep = [&](int64_t place, const Tensor &step, const Tensor &change) {
    steps[place] = step;
    changes[place] = change;
    weights[place] = 1 / dot(steps[place], changes[place]);
  };
  Compiles compiles;
  uint64_t early = 0;
  int64_t iteration = 0;
  for (; iteration < 200 && norm(g).item<double>() > 1e-9; ++iteration) {
    Tensor d = direction(g, iteration);
    double before = y.item<double>(), slope = dot(g, d).item<double>(), size = iteration ? 1 : 1e-3;
    Tensor next, next_y, next_g;
    for (;; size /= 2) {
      next = x - size * d;
      std::tie(next_y, next_g) = with_gradient(next);
      if (next_y.item<double>() <= before - 1e-4 * size * slope || size < 1e-12)
        break;
    }
    keep(iteration % kKept, next - x, next_g - g);
    x = next, y = next_y, g = next_g;
    if (iteration == 20)
      early = compiles.count();
  }
  EXPECT_LT(largest(x - 1), 1e-8);
  EXPECT_LE(early, 20u);
  EXPECT_LE(compiles.count() - early, 3u);
  ThreeWays{.written = {steps, changes, weights}, .calls = 3, .fed_back = 2}.compare(
      [&](const Tensor &x, const Tensor &g) {
        Tensor next = x - 1e-3 * direction(g, 13);
        auto [y, next_g] = with_gradient(next);
        keep(3, next - x, next_g - g);
        return std::tuple(next, next_g, y);
      },
      ones({kSize}, float64) * 0.5, ones({kSize}, float64));
}

// Levenberg and Marquardt's fit of a exp(b t) + c; the Jacobian by rows, the equations by
// elimination in place.
TEST(Methods, AFitByLeastSquares) {
  manual_seed(5);
  Tensor t = linspace(0, 2, 30, float64), y = 2.5 * exp(-1.3 * t) + 0.5,
         p = tensor<double>({1, -1, 0});
  eval({t, y, p});
  auto residuals = [&](const Tensor &q) {
    return q[0] * exp(q[1] * t) + q[2] - y;
  };
  // Where a step leads, and what is left there.
  auto step = [&](const Tensor &p, double damping) {
    Tensor q = p.detach().clone().requires_grad_(), r = residuals(q),
           jacobian = zeros({30, 3}, float64);
    for (int64_t i = 0; i < 30; ++i)
      jacobian[i] = grad({r[i]}, {q}, {.retain_graph = true})[0];
    Tensor m = matmul(jacobian.t(), jacobian) + damping * eye(3, {}, float64);
    m = cat({m, -matmul(jacobian.t(), r.detach()).unsqueeze(1)}, 1);
    for (int64_t k = 0; k < 3; ++k) {
      m[k] /= m.index({k, k}).clone();
      for (int64_t i = 0; i < 3; ++i)
        if (i != k)
          m[i] -= m.index({i, k}).clone() * m[k];
    }
    Tensor next = p + m.select(1, 3);
    return std::pair(next, residuals(next).square().sum());
  };
  double damping = 1e-2, cost = residuals(p).square().sum().item<double>();
  Compiles compiles;
  for (int iteration = 0; iteration < 25; ++iteration) {
    auto [next, left] = step(p, damping);
    double now = left.item<double>();
    if (now < cost)
      p = next, cost = now, damping /= 10;
    else
      damping *= 10;
  }
  EXPECT_LT(largest(p - tensor<double>({2.5, -1.3, 0.5})), 1e-9);
  EXPECT_LE(compiles.count(), 6u);
  ThreeWays{.fed_back = 1}.compare(step, tensor<double>({1, -1, 0}), 1e-2);
}

// The likelihood of a Gaussian process, by Cholesky's factorization written into a matrix of zeros,
// differentiated through the writes.
TEST(Methods, AGaussianProcessByCholesky) {
  constexpr int64_t kSize = 10;
  Tensor x = linspace(0, 3, kSize, float64), y = sin(2 * x), one = eye(kSize, {}, float64);
  auto loss = [&](const Tensor &length, const Tensor &noise) {
    Tensor k = exp(-0.5 * (x.unsqueeze(1) - x.unsqueeze(0)).square() / exp(2 * length)) +
               exp(2 * noise) * one;
    Tensor l = zeros({kSize, kSize}, float64), z = zeros({kSize}, float64);
    for (int64_t j = 0; j < kSize; ++j) {
      Tensor row = l.index({j, Slice(0, j)}), pivot = sqrt(k.index({j, j}) - row.square().sum());
      l.index({j, j}) = pivot;
      l.index({Slice(j + 1), j}) =
          (k.index({Slice(j + 1), j}) - matmul(l.index({Slice(j + 1), Slice(0, j)}), row)) / pivot;
      z[j] = (y[j] - dot(l.index({j, Slice(0, j)}), z.narrow(0, 0, j))) / pivot;
    }
    return 0.5 * z.square().sum() + log(diagonal(l)).sum();
  };
  Tensor length = scalar(0.1, float64), noise = scalar(-0.7, float64);
  length.requires_grad_(), noise.requires_grad_();
  std::vector<Tensor> g = grad({loss(length, noise)}, {length, noise});
  auto at = [&](double a, double b) {
    NoGrad no_grad;
    return loss(scalar(a, float64), scalar(b, float64)).item<double>();
  };
  EXPECT_NEAR(g[0].item<double>(), (at(0.1 + 1e-5, -0.7) - at(0.1 - 1e-5, -0.7)) / 2e-5, 1e-7);
  EXPECT_NEAR(g[1].item<double>(), (at(0.1, -0.7 + 1e-5) - at(0.1, -0.7 - 1e-5)) / 2e-5, 1e-7);
  Compiles compiles;
  optim::Adam optimizer({length, noise}, {.lr = 0.05});
  double first = loss(length, noise).item<double>(), last = first;
  auto learn = [&] {
    Tensor now = loss(length, noise);
    optimizer.zero_grad();
    now.backward();
    optimizer.step();
    return now;
  };
  for (int step = 0; step < 10; ++step)
    last = learn().item<double>();
  EXPECT_LT(last, first - 1);
  EXPECT_LE(compiles.count(), 3u);
  ThreeWays{.written = written_by(optimizer)}.compare(learn);
}

// V cycles for the Poisson equation, with convolutions as stencils, pooling down and bilinear
// resizing up.
TEST(Methods, Multigrid) {
  manual_seed(1);
  Tensor f = randn({1, 1, 32, 32}, float64), u = zeros_like(f);
  Tensor stencil = tensor<double>({{0, -1, 0}, {-1, 4, -1}, {0, -1, 0}}).reshape({1, 1, 3, 3});
  eval({f, u, stencil});
  auto apply = [&](const Tensor &x) {
    return conv2d(x, stencil, {}, {.padding = 1});
  };
  std::function<Tensor(Tensor, const Tensor &, int)> cycle = [&](Tensor x, const Tensor &right,
                                                                 int level) -> Tensor {
    for (int i = 0; i < 3; ++i)
      x = x + 0.2 * (right - apply(x));
    if (level > 0) {
      Tensor rest = avg_pool2d(right - apply(x), 2) * 4,
             error = cycle(zeros_like(rest), rest, level - 1);
      x = x + resize(error, {2 * error.size(2), 2 * error.size(3)}, {.mode = Resize::kBilinear});
    }
    for (int i = 0; i < 3; ++i)
      x = x + 0.2 * (right - apply(x));
    return x;
  };
  Compiles compiles;
  double start = norm(f).item<double>(), last = start;
  for (int i = 0; i < 12; ++i) {
    u = cycle(u, f, 3);
    last = norm(f - apply(u)).item<double>();
  }
  EXPECT_LT(last / start, 1e-4);
  EXPECT_LE(compiles.count(), 4u);
  ThreeWays{.fed_back = 1}.compare(
      [&](const Tensor &u, const Tensor &f) {
        Tensor next = cycle(u, f, 3);
        return std::pair(next, norm(f - apply(next)));
      },
      zeros_like(f), f);
}

// The derivative of a fixed point by the implicit function theorem is that of the iterations.
TEST(Methods, TheDerivativeOfAFixedPoint) {
  manual_seed(9);
  Tensor w = 0.2 * randn({8, 8}, float64), x = randn({8}, float64);
  eval({w, x});
  w.requires_grad_();
  auto iterate = [&](Tensor z) {
    for (int i = 0; i < 60; ++i)
      z = tanh(matmul(w, z) + x);
    return z;
  };
  auto unrolled = [&] {
    return grad({iterate(zeros({8}, float64)).square().sum()}, {w})[0];
  };
  auto implicit = [&] {
    Tensor z;
    {
      NoGrad no_grad;
      z = iterate(zeros({8}, float64));
    }
    Tensor at = z.clone().requires_grad_(), next = tanh(matmul(w, at) + x), weight = 2 * z,
           total = weight;
    for (int i = 0; i < 80; ++i)
      total = weight + grad({next}, {at}, {.grad_outputs = {total}, .retain_graph = true})[0];
    return grad({next}, {w}, {.grad_outputs = {total}})[0];
  };
  EXPECT_LT(largest(implicit() - unrolled()), 1e-11);
  ThreeWays().compare(unrolled);
  ThreeWays().compare(implicit);
}

// Sharpness-aware minimization (Foret et al. 2021): two backward passes a step, and weights that
// move away and back in place.
TEST(Methods, TwoBackwardPassesAStep) {
  manual_seed(22);
  nn::Linear up(5, 8), down(8, 2);
  Tensor x = randn({16, 5}), y = randint(0, 2, {16});
  eval({x, y});
  std::vector<Tensor> parameters = {up.weight, up.bias, down.weight, down.bias};
  optim::SGD optimizer(parameters, {.lr = 0.5});
  auto loss = [&] {
    return nn::cross_entropy(down(tanh(up(x))), y);
  };
  double first = loss().item<double>(), last = first;
  auto learn = [&] {
    optimizer.zero_grad();
    loss().backward();
    std::vector<Tensor> moved;
    {
      NoGrad no_grad;
      Tensor size = zeros({});
      for (const Tensor &p : parameters)
        size = size + p.grad().square().sum();
      for (Tensor &p : parameters) {
        moved.push_back(0.02 * p.grad() / sqrt(size));
        p += moved.back();
      }
    }
    optimizer.zero_grad();
    Tensor now = loss();
    now.backward();
    {
      NoGrad no_grad;
      for (size_t i = 0; i < parameters.size(); ++i)
        parameters[i] -= moved[i];
    }
    optimizer.step();
    return now;
  };
  Compiles compiles;
  for (int step = 0; step < 40; ++step)
    last = learn().item<double>();
  EXPECT_LT(last, 0.8 * first);
  EXPECT_LE(compiles.count(), 2u);
  ThreeWays{.written = parameters, .calls = 3}.compare(learn);
}

} // namespace
} // namespace weft::tests
