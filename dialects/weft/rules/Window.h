// Private to the rules of convolutions and pooling: how windows lie over one dim of an image.
#pragma once

#include <algorithm>

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// Output o, tap k of the kernel: position o * stride + k * dilation - padding of the image.
struct Window {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  int64_t extent() const {
    return dilation * (kernel - 1) + 1;
  }
  int64_t at(int64_t output, int64_t tap) const {
    return output * stride + tap * dilation - padding;
  }
  // The number of outputs over an image of `size`; less than 1 where the window does not fit.
  int64_t outputs(int64_t size, bool ceilMode = false) const {
    int64_t room = size + 2 * padding - extent() + (ceilMode ? stride - 1 : 0);
    if (room < 0)
      return 0;
    int64_t count = room / stride + 1;
    // PyTorch's rule: the last window must start in the image or the padding before it.
    if (ceilMode && (count - 1) * stride >= size + padding)
      --count;
    return count;
  }
  // The size that `outputs` windows cover, from the padding's start.
  int64_t covered(int64_t outputs) const {
    return outputs > 0 ? (outputs - 1) * stride + extent() : 0;
  }
  // PyTorch's divisor of an average.
  int64_t divisor(int64_t output, int64_t size, bool countIncludePad) const {
    int64_t first = output * stride - padding, end = std::min(first + kernel, size + padding);
    if (countIncludePad)
      return end - first;
    return std::min(end, size) - std::max<int64_t>(first, 0);
  }
};
// Over H and over W.
struct Windows2d {
  Window y, x;
};

template <typename Op> Windows2d convolutionWindows(Op op, llvm::ArrayRef<int64_t> weightShape) {
  auto one = [&](int i) {
    return Window{weightShape[2 + i], op.getStrides()[i], op.getPadding()[i], op.getDilation()[i]};
  };
  return {one(0), one(1)};
}
template <typename Op> Windows2d poolWindows(Op op) {
  auto one = [&](int i) {
    Window window{op.getKernel()[i], op.getStrides()[i], op.getPadding()[i], 1};
    if constexpr (requires { op.getDilation(); })
      window.dilation = op.getDilation()[i];
    return window;
  };
  return {one(0), one(1)};
}

} // namespace weft::ir
