// Element types, as users name them: weft::float32, weft::int64, ...
#pragma once

#include <cstdint>
#include <iosfwd>

#include "runtime/core/dtype.h"
#include "runtime/core/float16.h"

namespace weft {

inline constexpr DType float32 = DType::kFloat32;
inline constexpr DType float64 = DType::kFloat64;
inline constexpr DType int32 = DType::kInt32;
inline constexpr DType int64 = DType::kInt64;
inline constexpr DType boolean = DType::kBool;
inline constexpr DType bfloat16 = DType::kBFloat16;
inline constexpr DType float16 = DType::kFloat16;
inline constexpr DType int8 = DType::kInt8;
inline constexpr DType int16 = DType::kInt16;
inline constexpr DType uint8 = DType::kUInt8;

// Elements of bfloat16 and float16 tensors in C++: storage that converts to and from float,
// rounding to nearest even. Arithmetic goes through float.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  constexpr BFloat16(float value) : bits(float_to_bfloat16(value)) {}
  constexpr operator float() const {
    return bfloat16_to_float(bits);
  }
};
// As BFloat16, for float16: 11 bits of mantissa, up to 65504.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  constexpr Float16(float value) : bits(float_to_float16(value)) {}
  constexpr operator float() const {
    return float16_to_float(bits);
  }
};
static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

// The C++ types whose arrays can be read as tensors and back, with their dtypes: the one list of
// them.
#define WEFT_ELEMENT_TYPES(X)                                                                      \
  X(float, kFloat32)                                                                               \
  X(double, kFloat64)                                                                              \
  X(int32_t, kInt32)                                                                               \
  X(int64_t, kInt64)                                                                               \
  X(bool, kBool)                                                                                   \
  X(BFloat16, kBFloat16)                                                                           \
  X(Float16, kFloat16)                                                                             \
  X(int8_t, kInt8)                                                                                 \
  X(int16_t, kInt16)                                                                               \
  X(uint8_t, kUInt8)

// The dtype of an element type, if it is one: what ElementType and dtype_of() ask.
template <typename T> struct ElementDType {
  static constexpr bool known = false;
};
#define WEFT_ELEMENT_DTYPE(T, dtype)                                                               \
  template <> struct ElementDType<T> {                                                             \
    static constexpr bool known = true;                                                            \
    static constexpr DType value = DType::dtype;                                                   \
  };
WEFT_ELEMENT_TYPES(WEFT_ELEMENT_DTYPE)
#undef WEFT_ELEMENT_DTYPE

// A C++ type of the list above.
template <typename T>
concept ElementType = ElementDType<T>::known;

// The dtype of a C++ element type: dtype_of<float>() is float32.
template <ElementType T> constexpr DType dtype_of() {
  return ElementDType<T>::value;
}

// Its name: "float32".
std::ostream &operator<<(std::ostream &stream, DType dtype);

// The dtype of an operation between tensors of these dtypes and of one category of rank: the
// smallest that holds both, as in PyTorch's table (bool < integers < floats; uint8 with a signed
// type of its width goes one up; float16 with bfloat16 gives float32).
DType promote_types(DType a, DType b);

// Whether two dtypes are of one kind (bool, integer, floating): a scalar or 0-dim tensor changes
// the other operand's dtype only when its kind is higher.
constexpr int dtype_category(DType dtype) {
  return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0;
}

} // namespace weft
