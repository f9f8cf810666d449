#include <iostream>

#include "weft/weft.h"
namespace nn = weft::nn;

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(2, 32));
  nn::Linear down = child("down", nn::Linear(32, 1));
  weft::Tensor operator()(const weft::Tensor &x) const {
    return down(weft::tanh(up(x)));
  } // x: [batch, 2] -> [batch, 1]
};

int main() {
  Mlp model;
  weft::optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  for (int step = 0; step < 500; ++step) {
    weft::Tensor x = weft::rand({64, 2});
    weft::Tensor y = (x * x).sum(1, true); // learn the squared distance from the origin
    weft::Tensor loss = nn::mse(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step(); // forward, backward, update: one program, compiled once
    if (step % 100 == 99)
      std::cout << loss.item<float>() << "\n"; // a value is asked for: the program runs
  }
}
