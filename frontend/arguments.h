// What calls take beside tensors: dims, numbers, operands that may be either, and indices.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/dtype.h"
#include "weft/error.h"

namespace weft {

class Tensor;

// The sizes of a tensor's dims, the outermost first; numbers of dims and positions, too.
using Shape = std::vector<int64_t>;

// Dimensions to reduce or permute: one, several, or (as a default) all. Negative ones count from
// the end.
class Dims {
public:
  // All dims.
  Dims() = default;
  template <std::integral T> Dims(T dim) : dims_{static_cast<int64_t>(dim)}, all_(false) {}
  Dims(bool) = delete; // a keepdim in the place of dims
  Dims(std::initializer_list<int64_t> dims) : dims_(dims), all_(dims.size() == 0) {}
  Dims(Shape dims) : dims_(std::move(dims)), all_(dims_.empty()) {}
  // Whether no dims were given.
  bool all() const {
    return all_;
  }
  // The dims as they were given.
  const std::vector<int64_t> &values() const {
    return dims_;
  }

private:
  std::vector<int64_t> dims_;
  bool all_ = true;
};

// The p of a p-norm: a number, infinities included, not in braces, where dims would be meant.
struct NormOrder {
  template <typename T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  NormOrder(T p) : value(static_cast<double>(p)) {}
  NormOrder(std::initializer_list<double>) = delete;
  double value;
};

// A scalar that a caller passes. It is a parameter of the recorded program, not a part of it: a
// changing value never recompiles.
struct Scalar {
  DType
      dtype; // float64, int64 or boolean: its category takes part in promotion, its width does not
  union {
    double d;
    int64_t i;
  };
  template <std::floating_point T>
  Scalar(T value) : dtype(DType::kFloat64), d(static_cast<double>(value)) {}
  template <std::integral T>
  Scalar(T value)
      : dtype(std::is_same_v<T, bool> ? DType::kBool : DType::kInt64),
        i(static_cast<int64_t>(value)) {}
  // The value as a double.
  double as_double() const {
    return dtype == DType::kFloat64 ? d : static_cast<double>(i);
  }
};

// An operand of an operator or a function: a tensor or a scalar, with the place where it was
// passed. Lives as long as the call.
class TensorArg {
public:
  TensorArg(const Tensor &tensor, Location location = Location::current())
      : tensor_(&tensor), location_(location) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  TensorArg(T value, Location location = Location::current())
      : scalar_(value), location_(location) {}
  TensorArg(Scalar value, Location location = Location::current())
      : scalar_(value), location_(location) {}

  // Null for a scalar.
  const Tensor *tensor() const {
    return tensor_;
  }
  // The number, where it is no tensor.
  const Scalar &scalar() const {
    return scalar_;
  }
  // The caller's line.
  Location location() const {
    return location_;
  }

private:
  const Tensor *tensor_ = nullptr;
  Scalar scalar_ = 0;
  Location location_;
};

// As an index: all dims that the other entries leave.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis{};
// As an index: a new dim of size 1; None is the same.
struct NewAxisType {};
inline constexpr NewAxisType NewAxis{};
inline constexpr NewAxisType None{};
// x.index({Slice(1, 5), Ellipsis, None, 2}) is numpy's x[1:5, ..., None, 2].
struct Slice {
  // A position, or None (or {}), which leaves that end open: Slice(None, 2), Slice(1, None).
  struct End {
    End() = default;
    End(NewAxisType) {}
    End(std::nullopt_t) {}
    End(std::optional<int64_t> position) : position(position) {}
    template <std::integral T> End(T position) : position(static_cast<int64_t>(position)) {}
    std::optional<int64_t> position;
  };
  Slice(End start = {}, End stop = {}, int64_t step = 1)
      : start(start.position), stop(stop.position), step(step) {}
  std::optional<int64_t> start, stop;
  int64_t step;
};

// One entry of an index. A tensor (int32 or int64 positions, or a bool mask of as many dims as it
// has) is referred to, not held: an Index lives as long as the call.
class Index {
public:
  // What an entry may be.
  enum class Kind { kInteger, kSlice, kEllipsis, kNewAxis, kTensor };
  template <std::integral T>
  Index(T i) : kind_(Kind::kInteger), integer_(static_cast<int64_t>(i)) {}
  Index(Slice slice) : kind_(Kind::kSlice), slice_(slice) {}
  Index(EllipsisType) : kind_(Kind::kEllipsis) {}
  Index(NewAxisType) : kind_(Kind::kNewAxis) {}
  Index(const Tensor &tensor) : kind_(Kind::kTensor), tensor_(&tensor) {}
  // Which of these it is; the next three read it.
  Kind kind() const {
    return kind_;
  }
  // Of kInteger: a position, negative from the end.
  int64_t integer() const {
    return integer_;
  }
  // Of kSlice.
  const Slice &slice() const {
    return slice_;
  }
  // Of kTensor.
  const Tensor &tensor() const {
    return *tensor_;
  }

private:
  Kind kind_;
  int64_t integer_ = 0;
  Slice slice_;
  const Tensor *tensor_ = nullptr;
};

// A location that {} does not stand for: in from(values, {}) it is the shape of one element.
struct Caller {
  Caller(Location location) : location(location) {}
  Location location;
};

} // namespace weft
