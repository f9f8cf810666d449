// Element types, as users name them: weft::float32, weft::int64, ...
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/core/dtype.h"

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

// The C++ types whose arrays can be read as tensors and back.
template <typename T>
concept ElementType = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> ||
                      std::is_same_v<T, bool> || std::is_same_v<T, int8_t> || std::is_same_v<T, int16_t> || std::is_same_v<T, uint8_t>;

// The dtype of a C++ element type: dtype_of<float>() is float32.
template <ElementType T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  else if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  else if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::kInt8;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::kInt16;
  else return DType::kUInt8;
}

// The dtype of an operation between tensors of these dtypes and of one category of rank: the smallest that holds both,
// as in PyTorch's table (bool < integers < floats; uint8 with a signed type of its width goes one up; float16 with
// bfloat16 gives float32).
DType promote_types(DType a, DType b);

// Whether two dtypes are of one kind (bool, integer, floating): a scalar or 0-dim tensor changes the other operand's
// dtype only when its kind is higher.
constexpr int dtype_category(DType dtype) { return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0; }

} // namespace weft
