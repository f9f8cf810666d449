// Order by counting: the place of an element is the number of those that come before it. Comparing and adding up is one kernel, in which no
// [n, n] stands in memory.
#include <limits>

#include "frontend/recorder/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// topk() searches dims that are longer than this in blocks of this size: of each the k best, and the best of these.
constexpr int64_t kBlock = 128;

// x [.., n] -> for each element how many come before it, int64: 0 to n-1, each once. Of equal elements the one with the smaller tie.
Tensor ranks(const Tensor &x, bool descending) {
  int64_t n = x.shape().back();
  // Numbers of 32 bits, as most elements are, so that a vector has as many of each; whole ones, exact up to 2^24.
  DType counting = n < (int64_t(1) << 24) ? DType::kFloat32 : DType::kFloat64;
  Tensor key = x, tie = arange(n, counting);
  if (is_floating(x.dtype())) {
    // NaN beside infinity, and then behind it.
    Tensor nan = is_nan(x);
    key = where(nan, std::numeric_limits<double>::infinity(), x);
    tie = where(nan, tie + (descending ? -n : n), tie);
  }
  Tensor self = key.unsqueeze(-1), other = key.unsqueeze(-2);
  Tensor before = (descending ? other > self : other < self) | ((other == self) & (tie.unsqueeze(-2) < tie.unsqueeze(-1)));
  return before.to(counting).sum(-1).to(int64);
}

// x [.., n] -> where the elements of the first `count` places stand.
Tensor order(const Tensor &x, bool descending, int64_t count) {
  Tensor rank = ranks(x, descending);
  Tensor places = scatter_add(zeros(x.shape(), int64), -1, rank, arange(x.shape().back()).expand(x.shape()));
  return count == x.shape().back() ? places : places.narrow(-1, 0, count);
}

// What no element comes after, so that it may stand behind all of them.
Scalar last_of_all(DType dtype, bool descending) {
  if (is_floating(dtype)) return descending ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  int bits = static_cast<int>(byte_size(dtype)) * 8;
  if (dtype == DType::kUInt8) return descending ? 0 : 255;
  int64_t high = static_cast<int64_t>(~uint64_t(0) >> (65 - bits));
  return descending ? -high - 1 : high;
}

// x [.., n] -> where its k best stand, in order.
Tensor best(const Tensor &x, int64_t k, bool largest) {
  int64_t n = x.shape().back();
  if (n <= kBlock || 2 * k > kBlock) return order(x, largest, k);
  int64_t blocks = (n + kBlock - 1) / kBlock, missing = blocks * kBlock - n;
  Tensor padded = missing ? pad(x, {0, missing}, PadMode::kConstant, last_of_all(x.dtype(), largest)) : x;
  Shape shape = x.shape();
  shape.back() = blocks;
  shape.push_back(kBlock);
  Tensor in_blocks = padded.reshape(shape), found = order(in_blocks, largest, k);
  Tensor values = gather(in_blocks, -1, found).flatten(-2);
  Tensor places = (found + (arange(blocks) * kBlock).unsqueeze(1)).flatten(-2);
  return gather(places, -1, best(values, k, largest));
}

// A value that counts by comparisons only has no derivative; bool compares as a number.
Tensor comparable(const Tensor &x) { return x.dtype() == DType::kBool ? x.to(uint8) : x.detach(); }

} // namespace

Tensor argsort(const Tensor &x, int64_t dim, bool descending, Location location) {
  Session session("argsort", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 0) return zeros({}, int64);
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (type.elements == 0) return zeros(type.dims, int64);
  return order(comparable(x).transpose(axis, -1), descending, type.dims[axis]).transpose(axis, -1);
}

std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim, bool descending, Location location) {
  Session session("sort", location);
  Tensor indices = argsort(x, dim, descending, location);
  return {x.ndim() == 0 ? x : gather(x, dim, indices), indices};
}

std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim, bool largest, Location location) {
  Session session("topk", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 0) fail(ErrorKind::kShape, "x has no dimensions to choose from");
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (k < 0 || k > type.dims[axis])
    fail(ErrorKind::kValue, "k is " + std::to_string(k) + "; dimension " + std::to_string(axis) + " of shape " + to_string(type.dims) +
                                " has from 0 to " + std::to_string(type.dims[axis]) + " to choose");
  Shape shape = type.dims;
  shape[axis] = k;
  Tensor indices =
      k == 0 || type.elements == 0 ? zeros(shape, int64) : best(comparable(x).transpose(axis, -1), k, largest).transpose(axis, -1);
  return {gather(x, axis, indices), indices};
}

Tensor randperm(int64_t n, Generator &generator, Location location) {
  Session session("randperm", location);
  if (n < 0) fail(ErrorKind::kValue, "n is " + std::to_string(n) + "; it must not be negative");
  return argsort(rand({n}, generator, float64));
}

} // namespace weft
