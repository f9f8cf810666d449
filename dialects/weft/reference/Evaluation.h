// Reference evaluation: what each op's values are, on host tensors, with float64 accumulation.
#pragma once

#include <cmath>
#include <optional>
#include <type_traits>

#include "dialects/weft/reference/HostTensor.h"
#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"

namespace weft::ir {

class EvalContext {
public:
  EvalContext(mlir::Operation *op, llvm::ArrayRef<const HostTensor *> operands,
              llvm::MutableArrayRef<HostTensor> results)
      : op_(op), operands_(operands), results_(results) {}

  const HostTensor &operand(int64_t i) const {
    return *operands_[i];
  }
  int64_t numOperands() const {
    return operands_.size();
  }
  // Zeros of the result's type before the rule runs.
  HostTensor &result(int64_t i = 0) {
    return results_[i];
  }
  mlir::Operation *op() const {
    return op_;
  }
  // An error that the program can hit when it runs, such as an index out of range.
  mlir::LogicalResult error(const llvm::Twine &message) const;
  // That of an index outside [lower, upper), in the words of devices (index_check.cpp of the
  // runtime). user: the op's attribute, which is the name of the op that errors name, or, with a
  // space in it, the whole message.
  mlir::LogicalResult badIndex(llvm::StringRef user, int64_t index, int64_t position, int64_t lower,
                               int64_t upper, std::optional<int64_t> ignored = {}) const;

  // result(0)[i] = f(operand(0)[i]): f takes doubles for floating dtypes, int64_t for integers,
  // bool for bool.
  template <typename F> mlir::LogicalResult unary(F f) {
    const HostTensor &x = operand(0);
    for (int64_t i = 0, n = result().size(); i < n; ++i)
      store(result(), i, x, [&](auto tag) { return f(load<decltype(tag)>(x, i)); });
    return mlir::success();
  }
  template <typename F> mlir::LogicalResult binary(F f) {
    const HostTensor &x = operand(0), &y = operand(1);
    for (int64_t i = 0, n = result().size(); i < n; ++i)
      store(result(), i, x,
            [&](auto tag) { return f(load<decltype(tag)>(x, i), load<decltype(tag)>(y, i)); });
    return mlir::success();
  }

  template <typename T> static T load(const HostTensor &x, int64_t i) {
    if constexpr (std::is_same_v<T, double>)
      return x.getDouble(i);
    else
      return static_cast<T>(x.getInt(i));
  }

private:
  // Calls f with a value of the type in which elements of `like` are computed, and stores what it
  // returns.
  template <typename F> static void store(HostTensor &to, int64_t i, const HostTensor &like, F f) {
    if (is_floating(like.dtype))
      to.set(i, static_cast<double>(f(double())));
    else if (like.dtype == DType::kBool)
      to.setInt(i, static_cast<int64_t>(f(bool())));
    else
      to.setInt(i, static_cast<int64_t>(f(int64_t())));
  }

  mlir::Operation *op_;
  llvm::ArrayRef<const HostTensor *> operands_;
  llvm::MutableArrayRef<HostTensor> results_;
};

// Scalar functions of the records. Integers wrap, without undefined behaviour; HostTensor::setInt
// cuts them to their width.
template <typename T> T wrapping_add(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return int64_t(uint64_t(x) + uint64_t(y));
  else
    return T(x + y);
}
template <typename T> T wrapping_sub(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return int64_t(uint64_t(x) - uint64_t(y));
  else
    return T(x - y);
}
template <typename T> T wrapping_mul(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return int64_t(uint64_t(x) * uint64_t(y));
  else
    return T(x * y);
}
template <typename T> T wrapping_neg(T x) {
  if constexpr (std::is_same_v<T, double>)
    return -x;
  else
    return wrapping_sub(T(0), x);
}
template <typename T> T quotient(T x, T y) {
  if constexpr (std::is_same_v<T, double>)
    return x / y;
  else if (y == T(0))
    return T(0);
  else if (y == T(-1))
    return wrapping_neg(x);
  else
    return T(x / y);
}
template <typename T> T bit_and(T x, T y) {
  if constexpr (std::is_same_v<T, double>)
    return 0;
  else
    return T(x & y);
}
template <typename T> T bit_or(T x, T y) {
  if constexpr (std::is_same_v<T, double>)
    return 0;
  else
    return T(x | y);
}
template <typename T> T bit_xor(T x, T y) {
  if constexpr (std::is_same_v<T, double>)
    return 0;
  else
    return T(x ^ y);
}
// Of integers. A narrow one has its value here, so that a count between its width and 63 moves all
// of its bits out as well.
template <typename T> T shift_left(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return y < 0 || y > 63 ? 0 : int64_t(uint64_t(x) << y);
  else
    return T(0);
}
template <typename T> T shift_right(T x, T y) {
  if constexpr (std::is_same_v<T, int64_t>)
    return x >> (y < 0 || y > 63 ? 63 : y);
  else
    return T(0);
}
template <typename T> T bit_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else if constexpr (std::is_same_v<T, double>)
    return 0;
  else
    return ~x;
}
template <typename T> T remainder_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) {
    double r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  } else {
    if (y == T(0) || y == T(-1))
      return T(0);
    T r = T(x % y);
    return r != T(0) && (r < T(0)) != (y < T(0)) ? T(r + y) : r;
  }
}
// C's pow; of integers by squaring, which wraps, and with a negative exponent 0, but for the bases
// 1 and -1.
template <typename T> T power_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>)
    return std::pow(x, y);
  else {
    if (y < T(0))
      return x == T(1) || (x == T(-1) && y % 2 == 0) ? T(1) : x == T(-1) ? T(-1) : T(0);
    T result = 1;
    for (uint64_t left = uint64_t(y); left; left >>= 1) {
      if (left & 1)
        result = wrapping_mul(result, x);
      x = wrapping_mul(x, x);
    }
    return result;
  }
}
// IEEE 754-2019 minimum and maximum: NaN if one is NaN, and -0 < 0.
template <typename T> T minimum_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) {
    if (x == y)
      return std::signbit(x) ? x : y;
    if (x != x)
      return x;
    if (y != y)
      return y;
  }
  return y < x ? y : x;
}
template <typename T> T maximum_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) {
    if (x == y)
      return std::signbit(x) ? y : x;
    if (x != x)
      return x;
    if (y != y)
      return y;
  }
  return x < y ? y : x;
}
double gelu(double x, bool tanhApproximation);
double erfinv(double x);
double lgamma(double x);
double polygamma(int64_t order, double x);

// The bits of a uniform sample of this dtype: as many as its significand holds, so that no sample
// rounds to 1.
constexpr int uniformBits(DType dtype) {
  switch (dtype) {
  case DType::kBFloat16:
    return 8;
  case DType::kFloat16:
    return 11;
  case DType::kFloat64:
    return 53;
  default:
    return 24;
  }
}
// Element `element` of the uniform samples that a random op of this dtype draws from `state` at
// `offset` blocks; see Philox.h.
double uniformSample(const HostTensor &state, int64_t offset, int64_t element, DType dtype);

// Evaluates the ops of a block, in order, on the arguments (moved from). Gives what the terminator
// returns. Symbolic dims get their sizes from the arguments. Errors are diagnostics at the op's
// location.
mlir::LogicalResult evaluateBlock(mlir::Block &block, llvm::MutableArrayRef<HostTensor> arguments,
                                  llvm::SmallVectorImpl<HostTensor> &results);

} // namespace weft::ir
