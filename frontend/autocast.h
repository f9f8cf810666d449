// Mixed precision: under a scope, products and convolutions compute in 16 bits and what needs range
// or sums up in float32, whatever float32 and 16-bit tensors they are given. Parameters stay
// float32, and so do their gradients. docs/mixed-precision.md tells more.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/dtype.h"
#include "weft/error.h"

namespace weft {

// While it lives, functions on this thread cast their floating arguments as their row of the table
// (frontend/ops/autocast.inc) says; float64 and integers stay as they are. Scopes nest, the
// innermost decides; enabled = false turns casts off again. Backward computes in the dtypes that
// forward used: it is called after the scope's end, or inside, with the same result.
class Autocast {
public:
  // Error kDType unless dtype is bfloat16 or float16.
  explicit Autocast(DType dtype = bfloat16, bool enabled = true,
                    Location location = Location::current());
  ~Autocast();
  Autocast(const Autocast &) = delete;
  Autocast &operator=(const Autocast &) = delete;

private:
  DType dtype_before_;
  bool enabled_before_;
};
using autocast = Autocast;

// The dtype that this thread's innermost scope casts to; nothing where no scope is, or casts are
// off.
std::optional<DType> autocast_dtype();

// What a function does with float32, bfloat16 and float16 arguments under a scope.
enum class AutocastRule : uint8_t {
  kAsGiven, // nothing: arguments of several dtypes are promoted, as everywhere
  kLower,   // casts them to the scope's dtype, which its result has
  kFloat32, // casts them to float32, which its result has
};
// The rule of a function by its name, as errors show it ("matmul"). A function without a row takes
// what it is given.
AutocastRule autocast_rule(std::string_view function);

} // namespace weft
