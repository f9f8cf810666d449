#include "examples/digits/model.h"

namespace digits {

namespace nn = weft::nn;
using weft::Tensor;

// A batch norm follows each convolution, so that a bias would be lost in it.
static nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false});
}

Block::Block(int64_t in, int64_t out, int64_t stride)
    : first_(child("first", convolution(in, out, 3, stride))),
      second_(child("second", convolution(out, out, 3, 1))),
      first_norm_(child("first_norm", nn::BatchNorm2d(out))),
      second_norm_(child("second_norm", nn::BatchNorm2d(out))),
      reshapes_(in != out || stride != 1) {
  if (reshapes_)
    skip_ = child("skip", convolution(in, out, 1, stride));
}

Tensor Block::operator()(const Tensor &x) const {
  Tensor y = second_norm_(second_(weft::relu(first_norm_(first_(x)))));
  return weft::relu(y + (reshapes_ ? (*skip_)(x) : x));
}

DigitsNet::DigitsNet(const ModelSizes &sizes)
    : stem_(child("stem", convolution(1, sizes.width, 3, 1))),
      stem_norm_(child("stem_norm", nn::BatchNorm2d(sizes.width))),
      same_(child("same", Block(sizes.width, sizes.width, 1))),
      half_(child("half", Block(sizes.width, 2 * sizes.width, 2))), pool_(1),
      head_(child("head", nn::Linear(2 * sizes.width, sizes.classes))) {}

Tensor DigitsNet::operator()(const Tensor &images) const {
  Tensor x = half_(same_(weft::relu(stem_norm_(stem_(images)))));
  return head_(pool_(x).flatten(1));
}

} // namespace digits
