// Calls the kernel between other ops: a loss on the largest and the smallest element of each row,
// and its gradient.
#include <iostream>

#include "weft/weft.h"

int main(int argc, char **argv) {
  weft::load_plugin(argc > 1 ? argv[1] : "./sort.so");
  weft::Tensor x = weft::tensor({{3.f, 1.f, 2.f}, {-1.f, 5.f, 0.f}});
  x.set_requires_grad(true);
  std::vector<weft::Tensor> sorted = weft::custom("mine.sort", {x * 2});
  std::cout << "sorted " << sorted[0] << "\nfrom " << sorted[1] << "\n";
  weft::sum(sorted[0] * weft::tensor({-1.f, 0.f, 1.f})).backward();
  std::cout << "gradient " << x.grad() << "\n";
  bool right = sorted[0].to_vector<float>() == std::vector<float>{2, 4, 6, -2, 0, 10} &&
               sorted[1].to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0, 0, 2, 1} &&
               x.grad().to_vector<float>() == std::vector<float>{2, -2, 0, -2, 2, 0};
  return right ? 0 : 1;
}
