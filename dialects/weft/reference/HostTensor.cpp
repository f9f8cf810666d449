#include "dialects/weft/reference/HostTensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "runtime/core/float16.h"

namespace weft::ir {

using namespace mlir;

DType dtypeOf(Type element) {
  if (element.isF32())
    return DType::kFloat32;
  if (element.isF64())
    return DType::kFloat64;
  if (element.isBF16())
    return DType::kBFloat16;
  if (element.isF16())
    return DType::kFloat16;
  if (element.isUnsignedInteger(8))
    return DType::kUInt8;
  auto integer = cast<IntegerType>(element);
  switch (integer.getWidth()) {
  case 1:
    return DType::kBool;
  case 8:
    return DType::kInt8;
  case 16:
    return DType::kInt16;
  case 32:
    return DType::kInt32;
  default:
    return DType::kInt64;
  }
}

Type elementType(DType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case DType::kFloat32:
    return b.getF32Type();
  case DType::kFloat64:
    return b.getF64Type();
  case DType::kInt32:
    return b.getI32Type();
  case DType::kInt64:
    return b.getI64Type();
  case DType::kBool:
    return b.getI1Type();
  case DType::kBFloat16:
    return b.getBF16Type();
  case DType::kFloat16:
    return b.getF16Type();
  case DType::kInt8:
    return b.getIntegerType(8);
  case DType::kInt16:
    return b.getIntegerType(16);
  case DType::kUInt8:
    return b.getIntegerType(8, /*isSigned=*/false);
  }
  llvm_unreachable("a DType outside its enum");
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape)
    : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(size() * byte_size(dtype));
}

HostTensor HostTensor::of(RankedTensorType type) {
  return HostTensor(dtypeOf(type.getElementType()), type.getShape().vec());
}

HostTensor HostTensor::from(ElementsAttr attribute) {
  HostTensor tensor = of(cast<RankedTensorType>(attribute.getShapedType()));
  if (tensor.bytes.empty())
    return tensor;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attribute)) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob();
        blob && blob->getData().size() == tensor.bytes.size())
      std::memcpy(tensor.bytes.data(), blob->getData().data(), tensor.bytes.size());
    return tensor;
  }
  auto dense = cast<DenseElementsAttr>(attribute);
  int64_t count = dense.isSplat() ? 1 : tensor.size();
  if (tensor.dtype == DType::kBool) {
    // MLIR may hold bools as bits.
    for (auto [i, value] : llvm::enumerate(llvm::make_range(
             dense.value_begin<bool>(), std::next(dense.value_begin<bool>(), count))))
      tensor.setInt(i, value);
  } else {
    std::memcpy(tensor.bytes.data(), dense.getRawData().data(), count * byte_size(tensor.dtype));
  }
  for (int64_t i = count, width = byte_size(tensor.dtype), n = tensor.size(); i < n; ++i)
    std::memcpy(tensor.bytes.data() + i * width, tensor.bytes.data(), width);
  return tensor;
}

int64_t HostTensor::size() const {
  int64_t n = 1;
  for (int64_t dim : shape)
    n *= dim;
  return n;
}

double HostTensor::getDouble(int64_t i) const {
  switch (dtype) {
  case DType::kFloat32:
    return as<float>()[i];
  case DType::kFloat64:
    return as<double>()[i];
  case DType::kBFloat16:
    return bfloat16_to_float(as<uint16_t>()[i]);
  case DType::kFloat16:
    return float16_to_float(as<uint16_t>()[i]);
  default:
    return static_cast<double>(getInt(i));
  }
}

int64_t HostTensor::getInt(int64_t i) const {
  switch (dtype) {
  case DType::kInt32:
    return as<int32_t>()[i];
  case DType::kInt64:
    return as<int64_t>()[i];
  case DType::kBool:
    return as<uint8_t>()[i] != 0;
  case DType::kInt8:
    return as<int8_t>()[i];
  case DType::kInt16:
    return as<int16_t>()[i];
  case DType::kUInt8:
    return as<uint8_t>()[i];
  default:
    return saturating_int64(getDouble(i));
  }
}

void HostTensor::set(int64_t i, double value) {
  switch (dtype) {
  case DType::kFloat32:
    as<float>()[i] = static_cast<float>(value);
    return;
  case DType::kFloat64:
    as<double>()[i] = value;
    return;
  case DType::kBFloat16:
    as<uint16_t>()[i] = double_to_bfloat16(value);
    return;
  case DType::kFloat16:
    as<uint16_t>()[i] = double_to_float16(value);
    return;
  default:
    setInt(i, saturating_int64(value));
    return;
  }
}

void HostTensor::setInt(int64_t i, int64_t value) {
  switch (dtype) {
  case DType::kInt32:
    as<uint32_t>()[i] = static_cast<uint32_t>(value);
    return;
  case DType::kInt64:
    as<int64_t>()[i] = value;
    return;
  case DType::kBool:
    as<uint8_t>()[i] = value != 0;
    return;
  case DType::kInt8:
  case DType::kUInt8:
    as<uint8_t>()[i] = static_cast<uint8_t>(value);
    return;
  case DType::kInt16:
    as<uint16_t>()[i] = static_cast<uint16_t>(value);
    return;
  default:
    set(i, static_cast<double>(value));
    return;
  }
}

int64_t saturating_int64(double value) {
  if (value != value)
    return 0;
  if (value >= 0x1p63)
    return INT64_MAX;
  if (value < -0x1p63)
    return INT64_MIN;
  return static_cast<int64_t>(value);
}

DenseElementsAttr HostTensor::toAttribute(MLIRContext *context) const {
  auto type = RankedTensorType::get(shape, elementType(dtype, context));
  if (dtype == DType::kBool) {
    SmallVector<bool> values(size());
    for (int64_t i = 0, n = size(); i < n; ++i)
      values[i] = getInt(i);
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(
      type, ArrayRef(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
}

} // namespace weft::ir
