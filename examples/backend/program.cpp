// A network's step on the toy device, against the reference backend, and an op that the device
// leaves to the host.
#include <cmath>
#include <iostream>

#include "weft/weft.h"

namespace {

struct Results {
  std::vector<float> loss, weight, sums;
  std::vector<std::string> step_remarks, sum_remarks;
};

Results run(const std::string &backend) {
  weft::Config config = weft::config();
  config.backend = backend;
  weft::set_config(config);
  Results results;
  weft::Tensor w = weft::Tensor::from<float>(std::vector<float>(32, 0.05f), {8, 4});
  w.set_requires_grad(true);
  weft::Tensor x =
      weft::Tensor::from<float>(std::vector<float>(128, 0.5f), {16, 8}) * w.detach().sum();
  for (int step = 0; step < 3; ++step) {
    weft::Tensor y = weft::softmax(weft::tanh(weft::matmul(x, w)), 1);
    weft::Tensor loss = weft::mean((y - weft::tensor({1.f, 0.f, 0.f, 0.f})) *
                                   (y - weft::tensor({1.f, 0.f, 0.f, 0.f})));
    loss.backward();
    {
      weft::NoGrad quiet;
      w -= w.grad() * 0.5;
    }
    w.zero_grad();
    results.loss.push_back(loss.item<float>());
    results.step_remarks = weft::explain(loss).notes;
  }
  results.weight = w.to_vector<float>();
  weft::Tensor sums = weft::cumsum(w.detach(), 0) * 2;
  results.sums = sums.to_vector<float>();
  results.sum_remarks = weft::explain(sums).notes;
  return results;
}

bool close(const std::vector<float> &a, const std::vector<float> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-5f * (1 + std::abs(b[i])))
      return false;
  return a.size() == b.size();
}

} // namespace

int main() {
  Results toy = run("toy"), reference = run("reference");
  for (float loss : toy.loss)
    std::cout << "loss " << loss << "\n";
  for (const std::string &remark : toy.step_remarks)
    std::cout << "step: " << remark << "\n";
  for (const std::string &remark : toy.sum_remarks)
    std::cout << "sums: " << remark << "\n";
  bool right = close(toy.loss, reference.loss) && close(toy.weight, reference.weight) &&
               close(toy.sums, reference.sums);
  std::cout << (right ? "as the reference says\n" : "NOT what the reference says\n");
  return right ? 0 : 1;
}
