// Knows nothing of the replacement: prints gelu(1) and its derivative there.
#include <cstdio>

#include "weft/weft.h"

int main() {
  weft::Tensor x = weft::ones({1});
  x.set_requires_grad(true);
  weft::Tensor y = weft::gelu(x);
  y.sum().backward();
  std::printf("%.6f %.6f\n", y.item<float>(), x.grad().item<float>());
}
