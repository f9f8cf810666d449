// An op of one's own, recorded by name, fused with its neighbours, and differentiated twice. Sees
// no MLIR.
#include <cmath>
#include <iostream>

#include "weft/weft.h"

weft::Tensor squash(const weft::Tensor &x) {
  return weft::call_op("mine.squash", {x})[0];
}

int main(int argc, char **argv) {
  // A plugin may come late: programs were compiled before.
  if (weft::sum(weft::tensor({1.f, 2.f}) * 2).item<float>() != 6)
    return 1;
  weft::load_plugin(argc > 1 ? argv[1] : "./mine.so");
  weft::Tensor x = weft::tensor({-3.f, 0.5f, 1.f});
  x.set_requires_grad(true);
  weft::Tensor y = weft::sum(squash(x * 2) * 3);
  weft::Tensor first = weft::grad({y}, {x}, /*create_graph=*/true)[0];
  weft::Tensor second = weft::grad({weft::sum(first)}, {x})[0];
  weft::eval({y, first, second});
  std::cout << "value " << y << "\nfirst derivative " << first << "\nsecond derivative " << second
            << "\n"
            << weft::explain(first).kernels << " kernel(s)\n";
  // 3 * 2x / (1 + |2x|); 6 / (1 + |2x|)^2; -24 sign(x) / (1 + |2x|)^3
  std::vector<float> d1 = first.to_vector<float>(), d2 = second.to_vector<float>(),
                     at = x.to_vector<float>();
  for (size_t i = 0; i < at.size(); ++i) {
    double m = 1 + std::abs(2 * at[i]);
    if (std::abs(d1[i] - 6 / (m * m)) > 1e-5 ||
        std::abs(d2[i] + std::copysign(24 / (m * m * m), at[i])) > 1e-4)
      return 1;
  }
  return 0;
}
