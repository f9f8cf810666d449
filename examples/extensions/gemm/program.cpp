// A product that the library claims, its gradients, of which it claims what it takes, and the same
// function compiled ahead of time. Sees no MLIR.
#include <cmath>
#include <iostream>

#include "weft/weft.h"

int main(int argc, char **argv) {
  weft::manual_seed(1);
  weft::Tensor x = weft::randn({6, 5}), w = weft::randn({5, 3});
  w.set_requires_grad(true);
  weft::Tensor y = weft::matmul(x, w);
  weft::sum(y * y).backward();
  weft::eval({y, w.grad()});
  for (const std::string &note : weft::explain(weft::matmul(x.transpose(0, 1), x)).notes)
    std::cout << note << "\n";
  // y = x w; its square's gradient is 2 x' y.
  std::vector<float> a = x.to_vector<float>(), b = w.to_vector<float>(), c = y.to_vector<float>(),
                     g = w.grad().to_vector<float>();
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int k = 0; k < 5; ++k)
        sum += double(a[i * 5 + k]) * b[k * 3 + j];
      if (std::abs(sum - c[i * 3 + j]) > 1e-5)
        return 1;
    }
  for (int k = 0; k < 5; ++k)
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int i = 0; i < 6; ++i)
        sum += 2 * double(a[i * 5 + k]) * c[i * 3 + j];
      if (std::abs(sum - g[k * 3 + j]) > 1e-4)
        return 1;
    }
  if (argc > 1) {
    weft::Program program = weft::trace(
        [&](const weft::Tensor &v) { return weft::matmul(v, weft::ones({5, 3})) + 1; }, {x});
    program.compile({.emit = weft::Emit::executable, .output = argv[1]});
  }
  std::cout << "right\n";
}
