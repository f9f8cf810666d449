// What the IR, profiles and reports show names the module that it belongs to.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <iostream>

namespace weft {
namespace {

// A user's module: nothing in it says where it is.
struct Block : nn::Module {
  nn::Linear up = child("up", nn::Linear(4, 8));
  nn::Linear down = child("down", nn::Linear(8, 4));
  nn::Parameter scale = parameter("scale", ones({4}));
  Tensor operator()(const Tensor &x) const {
    Tensor h = tanh(up(x));
    return x - abs(down(h)) * scale;
  }
};

struct Net : nn::Module {
  Block first = child("first", Block());
  nn::Sequential rest = child("rest", nn::Sequential(Block(), nn::LayerNorm({4}), Block()));
  nn::Linear head = child("head", nn::Linear(4, 2));
  Tensor operator()(const Tensor &x) const {
    return head(sqrt(square(rest(first(x))) + 1.0));
  }
};

TEST(Modules, X) {
  Net net;
  std::cout << trace(net, {ones({3, 4})}).to_string() << "\n";
}

} // namespace
} // namespace weft
