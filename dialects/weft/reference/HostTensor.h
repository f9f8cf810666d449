// A tensor in host memory: what reference evaluation, constants and file formats work on.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/core/dtype.h"

namespace weft::ir {

// The DType of an MLIR element type and back.
DType dtypeOf(mlir::Type element);
mlir::Type elementType(DType dtype, mlir::MLIRContext *context);

// Rounds towards zero; what does not fit becomes the nearest int64_t, NaN becomes 0.
int64_t saturating_int64(double value);

// Row-major, without gaps. Elements read and write as double or int64_t: exact for every dtype but
// i64 through doubles.
struct HostTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  HostTensor(DType dtype, std::vector<int64_t> shape); // zeros
  static HostTensor of(mlir::RankedTensorType type);   // zeros; the type must be static
  static HostTensor from(mlir::ElementsAttr attribute);

  int64_t size() const;
  template <typename T> T *as() {
    return reinterpret_cast<T *>(bytes.data());
  }
  template <typename T> const T *as() const {
    return reinterpret_cast<const T *>(bytes.data());
  }
  double getDouble(int64_t i) const;
  int64_t getInt(int64_t i) const;
  // Rounds once to the dtype (nearest even). Into integers: set saturates, then both keep the low
  // bits of the dtype's width.
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);

  mlir::DenseElementsAttr toAttribute(mlir::MLIRContext *context) const;
};

} // namespace weft::ir
