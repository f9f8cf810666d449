// A function, its derivative and its second derivative as programs: dumped, run, and the last one
// compiled ahead of time.
#include <fstream>
#include <iostream>

#include "weft/weft.h"

namespace {

// Rosenbrock's function of a point, [2] -> []
weft::Tensor banana(const weft::Tensor &point) {
  weft::Tensor x = point[0], y = point[1];
  weft::Tensor a = 1 - x, b = y - x * x;
  return a * a + 100 * (b * b);
}

} // namespace

int main(int argc, char **argv) {
  std::string folder = argc > 1 ? argv[1] : ".";
  weft::Program function = weft::trace(banana, {weft::zeros({2})});
  weft::Program gradient = function.differentiate(); // point -> value, gradient
  weft::Program hessian =
      gradient.differentiate({.result = 1}); // point, v -> value, gradient, Hessian times v
  function.save(folder + "/function.mlir");
  gradient.save(folder + "/gradient.mlir");
  hessian.save(folder + "/hessian.mlirbc", weft::ProgramFormat::bytecode);
  hessian.print();

  // Newton's method finds the minimum, (1, 1), from a file's program.
  hessian = weft::Program::load(folder + "/hessian.mlirbc");
  weft::Tensor point = weft::tensor({-1.f, 1.5f});
  for (int step = 0; step < 8; ++step) {
    std::vector<float> h[2], g;
    for (int i = 0; i < 2; ++i) {
      std::vector<weft::Tensor> results =
          hessian.run({point, weft::tensor({i == 0 ? 1.f : 0.f, i == 1 ? 1.f : 0.f})});
      g = results[1].to_vector<float>();
      h[i] = results[2].to_vector<float>();
    }
    float determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
    float dx = (g[0] * h[1][1] - g[1] * h[1][0]) / determinant,
          dy = (g[1] * h[0][0] - g[0] * h[0][1]) / determinant;
    point = point - weft::tensor({dx, dy});
  }
  std::vector<float> found = point.to_vector<float>();
  std::cout << "minimum at " << found[0] << ", " << found[1] << "\n";
  if (std::abs(found[0] - 1) > 1e-3f || std::abs(found[1] - 1) > 1e-3f)
    return 1;

  hessian.compile({.emit = weft::Emit::executable, .output = folder + "/hessian"});
  return 0;
}
