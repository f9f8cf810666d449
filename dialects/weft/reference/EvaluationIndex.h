// Private to the evaluation rules: positions in row-major tensors.
#pragma once

#include "dialects/weft/reference/HostTensor.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::ir {

using Coords = llvm::SmallVector<int64_t, 6>;

// The coordinates of element i of a tensor of this shape, which has elements.
inline Coords coordsOf(int64_t i, llvm::ArrayRef<int64_t> shape) {
  Coords coords(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d])
    coords[d] = i % shape[d];
  return coords;
}

inline int64_t positionOf(llvm::ArrayRef<int64_t> coords, llvm::ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    position = position * shape[d] + coords[d];
  return position;
}

// The position that coords of a larger shape have in a tensor that broadcasts to it.
inline int64_t broadcastPosition(llvm::ArrayRef<int64_t> coords, llvm::ArrayRef<int64_t> shape) {
  int64_t position = 0, offset = coords.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    position = position * shape[d] + (shape[d] == 1 ? 0 : coords[offset + d]);
  return position;
}

// to[i] = from[j], of one dtype.
inline void copyElement(HostTensor &to, int64_t i, const HostTensor &from, int64_t j) {
  int64_t width = byte_size(to.dtype);
  std::memcpy(to.bytes.data() + i * width, from.bytes.data() + j * width, width);
}

// Splits a shape around a dimension: element (o, k, i) stands at (o * size + k) * inner + i.
struct DimSplit {
  int64_t outer = 1, size = 1, inner = 1;
  DimSplit(llvm::ArrayRef<int64_t> shape, int64_t dim) : size(shape[dim]) {
    for (int64_t n : shape.take_front(dim))
      outer *= n;
    for (int64_t n : shape.drop_front(dim + 1))
      inner *= n;
  }
  int64_t at(int64_t o, int64_t k, int64_t i) const {
    return (o * size + k) * inner + i;
  }
};

} // namespace weft::ir
