// The element types of Weft, shared by the frontend, the dialects, the runtime and compiled code.
#pragma once

#include <cstdint>

namespace weft {

// The values are part of the C ABI and of files: never renumber.
enum class DType : uint8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kBool = 4, // one byte an element, 0 or 1
  kBFloat16 = 5,
  kFloat16 = 6,
  kInt8 = 7,
  kInt16 = 8,
  kUInt8 = 9,
};

struct DTypeInfo {
  DType dtype;
  const char *name;        // as numpy and PyTorch print it
  const char *ir_name;     // MLIR element type
  const char *safetensors; // the tag in a safetensors header
  int64_t bytes;           // of one element in memory
  bool is_floating;
  bool is_integer; // signed or unsigned, not bool
};

// One row a type, in the order of the enum.
inline constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat32, "float32", "f32", "F32", 4, true, false},
    {DType::kFloat64, "float64", "f64", "F64", 8, true, false},
    {DType::kInt32, "int32", "i32", "I32", 4, false, true},
    {DType::kInt64, "int64", "i64", "I64", 8, false, true},
    {DType::kBool, "bool", "i1", "BOOL", 1, false, false},
    {DType::kBFloat16, "bfloat16", "bf16", "BF16", 2, true, false},
    {DType::kFloat16, "float16", "f16", "F16", 2, true, false},
    {DType::kInt8, "int8", "i8", "I8", 1, false, true},
    {DType::kInt16, "int16", "i16", "I16", 2, false, true},
    {DType::kUInt8, "uint8", "ui8", "U8", 1, false, true},
};

inline constexpr const DTypeInfo &info(DType dtype) {
  return kDTypes[static_cast<int>(dtype)];
}
inline constexpr int64_t byte_size(DType dtype) {
  return info(dtype).bytes;
}
inline constexpr const char *name(DType dtype) {
  return info(dtype).name;
}
inline constexpr bool is_floating(DType dtype) {
  return info(dtype).is_floating;
}
inline constexpr bool is_integer(DType dtype) {
  return info(dtype).is_integer;
}

} // namespace weft
