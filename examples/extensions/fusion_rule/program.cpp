// Eight ops of one shape: one kernel, if nobody objects. Prints what they give, how many kernels
// they are, and what was refused.
#include <iostream>

#include "weft/weft.h"

int main() {
  weft::Tensor x = weft::linspace(0.1, 1, 1000).eval();
  weft::Tensor y = weft::neg(weft::sin(weft::abs(weft::cos(x))));
  y = weft::log(weft::sqrt(weft::tanh(weft::exp(y))));
  weft::Evaluation evaluation = weft::explain(y);
  std::cout << y.to_vector<float>()[7] << "\n" << evaluation.kernels << " kernel(s)\n";
  for (const std::string &note : evaluation.notes)
    std::cout << note << "\n";
}
