// A training step, whose memory a planner may pack: the same losses to the last bit, more bytes.
#include <iostream>

#include "weft/weft.h"

int main() {
  weft::manual_seed(3);
  weft::nn::Sequential model(weft::nn::Linear(8, 32), weft::nn::GELU(), weft::nn::LayerNorm(32),
                             weft::nn::Linear(32, 2));
  weft::optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  weft::Tensor x = weft::randn({64, 8}), y = weft::randn({64, 2});
  std::cout.precision(9);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    weft::Tensor loss = weft::nn::mse(model(x), y);
    loss.backward();
    optimizer.step();
    std::cout << "loss " << loss.item<float>() << "\n";
  }
}
