// Checks ops of one's own as Weft's tests check Weft's: every backend against the interpreter, and
// derivatives against central differences in float64. Copy check() for other ops.
#include <cmath>
#include <functional>
#include <iostream>

#include "weft/weft.h"

using weft::Tensor;
using Function = std::function<Tensor(const Tensor &)>;

std::vector<double> values_on(const std::string &backend, const std::function<Tensor()> &f) {
  weft::Config before = weft::config(), config = before;
  config.backend = backend;
  weft::set_config(config);
  std::vector<double> values = f().to(weft::float64).to_vector<double>();
  weft::set_config(before);
  return values;
}

bool near(const std::vector<double> &a, const std::vector<double> &b, double bound) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i]))))
      return false;
  return a.size() == b.size();
}

// The gradient of a weighted sum of f's elements, recorded.
Tensor gradient(const Function &f, const Tensor &at, const Tensor &weights) {
  Tensor x = at.clone();
  x.set_requires_grad(true);
  return weft::grad({weft::sum(f(x) * weights)}, {x})[0];
}

bool check(const std::string &name, const Function &f, const Tensor &x) {
  bool right = true;
  auto expect = [&](bool holds, const std::string &what) {
    if (!holds)
      std::cout << name << ": " << what << "\n";
    right = right && holds;
  };
  Tensor x64 = x.to(weft::float64).eval();
  // evaluate against lowering and decomposition: alone, in a fusion, and op by op.
  for (weft::DType dtype : {weft::float32, weft::float64, weft::bfloat16}) {
    Tensor input = x.to(dtype).eval();
    double bound = dtype == weft::float64 ? 1e-14 : dtype == weft::float32 ? 1e-5 : 1e-2;
    for (const Function &g : {f, Function([&](const Tensor &t) { return f(t + 1) * 2; })}) {
      std::vector<double> wanted = values_on("reference", [&] { return g(input); });
      for (const char *backend : {"cpu", "cpu-unfused"})
        expect(near(values_on(backend, [&] { return g(input); }), wanted, bound),
               std::string(backend) + " and the interpreter differ");
    }
  }
  // Sizes that vary: after a few calls one program serves them all, where the op allows it.
  for (int64_t rows = x.shape()[0]; rows > 0 && rows < x.shape()[0] + 6; ++rows) {
    weft::Shape shape = x.shape();
    shape[0] = rows;
    Tensor input = weft::randn(shape).eval();
    expect(near(values_on("cpu", [&] { return f(input); }),
                values_on("reference", [&] { return f(input); }), 1e-5),
           "a wrong value at another size");
  }
  // The derivative against (f(x + h) - f(x - h)) / 2h, element by element.
  Tensor weights = weft::rand(f(x64).shape(), weft::float64).eval();
  std::vector<double> slopes, point = x64.to_vector<double>();
  for (size_t i = 0; i < point.size(); ++i) {
    auto at = [&](double step) {
      std::vector<double> moved = point;
      moved[i] += step;
      return weft::sum(f(Tensor::from(moved, x64.shape())) * weights).item<double>();
    };
    slopes.push_back((at(1e-5) - at(-1e-5)) / 2e-5);
  }
  expect(near(gradient(f, x64, weights).to_vector<double>(), slopes, 1e-7), "a wrong derivative");
  return right;
}

int main(int argc, char **argv) {
  weft::load_plugin(argc > 1 ? argv[1] : "./mine.so");
  Function mirror = [](const Tensor &x) { return weft::call_op("mine.mirror", {x})[0]; };
  Function norm = [](const Tensor &x) {
    return weft::call_op("mine.row_norm", {x}, {{"eps", 0.01}})[0];
  };
  bool right = true;
  for (const weft::Shape &shape : {weft::Shape{3, 5}, weft::Shape{2, 3, 40}, weft::Shape{7, 1}}) {
    Tensor x = weft::randn(shape).eval();
    right = check("mine.mirror", mirror, x) && right;
    right = check("mine.row_norm", norm, x) && right;
  }
  right = check("mine.mirror", mirror, weft::randn({6}).eval()) && right;
  std::cout << mirror(weft::tensor({{1.f, 2.f, 3.f}})) << " " << norm(weft::tensor({3.f, 4.f}))
            << "\n";
  return right ? 0 : 1;
}
