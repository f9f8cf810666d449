// A program of several ranks, outside the tree: the loop that docs/distributed.md begins with
// (loop.inc, and what it includes, headers.inc), and what it trains.
#include <cstdio>

#include "headers.inc"
#include "weft/weft.h"

int main() {
  using namespace weft;
  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 3));
  data::TensorDataset data(randn({64, 4}), randint(0, 3, {64}));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
#include "loop.inc"
  float first = model.parameters()[0].to_vector<float>()[0];
  Tensor all = distributed::all_gather(Tensor::from(std::vector{first}));
  for (float each : all.to_vector<float>())
    if (each != first)
      return 1;
  std::printf("rank %d of %d ranks\n", world.rank(), world.size());
}
