// A toy device: memory of its own, which the host reaches by copies only, and kernels that work on
// it. Knows nothing of Weft.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

namespace toy {

// Where something lies in the device's memory. The host that takes it for a pointer faults: no page
// is there.
enum class Address : uintptr_t {};
inline Address operator+(Address base, int64_t bytes) {
  return Address(static_cast<uintptr_t>(base) + static_cast<uintptr_t>(bytes));
}
inline Address address_of(const void *pointer) {
  return Address(reinterpret_cast<uintptr_t>(pointer));
}

// Places pieces in a range of bytes: the first gap that is large enough. Serves the device's memory
// and the plan of a program's arena.
class FirstFit {
public:
  explicit FirstFit(int64_t capacity) {
    gaps_[0] = capacity;
  }
  // The offset, a multiple of 64; -1 where no gap is large enough.
  int64_t take(int64_t bytes);
  void give(int64_t offset, int64_t bytes);
  int64_t highest() const {
    return highest_;
  } // the end of what was ever taken

private:
  std::map<int64_t, int64_t> gaps_; // offset -> size
  int64_t highest_ = 0;
};

class Device {
public:
  static Device &instance();

  // A multiple of 64; ResourceExhausted when the memory is full.
  absl::StatusOr<Address> allocate(int64_t bytes);
  void free(Address address, int64_t bytes);

  void copy_in(Address to, const void *from, int64_t bytes);
  void copy_out(void *to, Address from, int64_t bytes);

  // For kernels. Ends the process where the address is none of the device's.
  template <typename T> T *at(Address address) {
    return reinterpret_cast<T *>(memory_ + offset_of(address));
  }

  static constexpr int64_t kCapacity = int64_t(1) << 30;

private:
  Device();
  int64_t offset_of(Address address) const;
  std::byte *memory_;
  Address first_; // of the range that stands for the memory
  std::mutex mutex_;
  FirstFit space_{kCapacity};
};

//===-- Kernels -------------------------------------------------------------------------------===//

// The scalar functions, in one list: name of the op in the dialect weft, number of operands,
// formula on a T (float or double). What no machine instruction computes is computed in double and
// rounded once.
#define TOY_FUNCTIONS(FUNCTION)                                                                    \
  FUNCTION(neg, 1, -x)                                                                             \
  FUNCTION(abs, 1, std::abs(x))                                                                    \
  FUNCTION(sqrt, 1, std::sqrt(x))                                                                  \
  FUNCTION(rsqrt, 1, T(1 / std::sqrt(double(x))))                                                  \
  FUNCTION(exp, 1, T(std::exp(double(x))))                                                         \
  FUNCTION(log, 1, T(std::log(double(x))))                                                         \
  FUNCTION(sin, 1, T(std::sin(double(x))))                                                         \
  FUNCTION(cos, 1, T(std::cos(double(x))))                                                         \
  FUNCTION(tanh, 1, T(std::tanh(double(x))))                                                       \
  FUNCTION(sigmoid, 1, T(1 / (1 + std::exp(-double(x)))))                                          \
  FUNCTION(relu, 1, x > 0 || x != x ? x : T(0))                                                    \
  FUNCTION(add, 2, x + y)                                                                          \
  FUNCTION(sub, 2, x - y)                                                                          \
  FUNCTION(mul, 2, x *y)                                                                           \
  FUNCTION(div, 2, x / y)                                                                          \
  FUNCTION(minimum, 2,                                                                             \
           x == y   ? (std::signbit(x) ? x : y)                                                    \
           : x != x ? x                                                                            \
           : y != y ? y                                                                            \
           : y < x  ? y                                                                            \
                    : x)                                                                           \
  FUNCTION(maximum, 2, x == y ? (std::signbit(x) ? y : x) : x != x ? x : y != y ? y : x < y ? y : x)

enum class Function : uint8_t {
#define FUNCTION(name, operands, formula) k_##name,
  TOY_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

// Elementwise functions of one shape as one kernel: intermediate values stay in registers, a block
// of elements at a time.
struct Chain {
  struct Op {
    Function function;
    int32_t x, y; // registers: first the inputs, then one for each op
  };
  int64_t count = 0;
  std::vector<Op> ops;
  int32_t inputs = 0;
  std::vector<int32_t> outputs; // registers that are written to memory
};
template <typename T>
void run_chain(Device &device, const Chain &chain, const std::vector<Address> &inputs,
               const std::vector<Address> &outputs);

// Copies elements of `width` bytes: output [i, j, ...] is the input's element offset + i *
// strides[0] + j * strides[1] + ... What broadcasts, transposes and slices is this kernel with
// other strides.
struct Gather {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;
  int64_t width = 4;
};
void run_gather(Device &device, const Gather &gather, Address input, Address output);

// Matrix products, one for each element of `batch`; strides in elements.
struct Matmul {
  int64_t m = 0, n = 0, k = 0;
  int64_t lhs_row = 0, lhs_column = 0, rhs_row = 0, rhs_column = 0;
  std::vector<int64_t> lhs_matrices, rhs_matrices; // where each product's operands start
};
template <typename T>
void run_matmul(Device &device, const Matmul &matmul, Address lhs, Address rhs, Address output);

// Sums or maxima: element i of the input goes to the output's element that its dims with these
// strides (0 for reduced ones) give.
struct Reduce {
  bool maximum = false;
  std::vector<int64_t> dims, strides;
  int64_t results = 1;
};
template <typename T>
void run_reduce(Device &device, const Reduce &reduce, Address input, Address output);

} // namespace toy
