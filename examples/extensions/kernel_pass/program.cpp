// tanh of 1, computed by a program: with the pass 28 / 36, without it 0.76159.
#include <iostream>

#include "weft/weft.h"

int main() {
  weft::Tensor x = weft::full({20}, 1);
  std::cout << (weft::tanh(x) * 2).to_vector<float>()[19] / 2 << "\n";
}
