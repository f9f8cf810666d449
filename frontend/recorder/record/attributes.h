// What attributes of ops are of what a call gives.
#pragma once

#include "frontend/recorder/record/state.h"

namespace weft::recorder {

inline mlir::Builder attribute_builder() {
  return mlir::Builder(&recorder().ir->context());
}
inline mlir::BoolAttr attribute(bool value) {
  return attribute_builder().getBoolAttr(value);
}
inline mlir::IntegerAttr attribute(int64_t value) {
  return attribute_builder().getI64IntegerAttr(value);
}
inline mlir::FloatAttr attribute(double value) {
  return attribute_builder().getF64FloatAttr(value);
}
inline mlir::StringAttr attribute(std::string_view value) {
  return attribute_builder().getStringAttr(value);
}
inline mlir::DenseI64ArrayAttr attribute(std::span<const int64_t> values) {
  return attribute_builder().getDenseI64ArrayAttr({values.data(), values.size()});
}
inline mlir::DenseF64ArrayAttr attribute(std::span<const double> values) {
  return attribute_builder().getDenseF64ArrayAttr({values.data(), values.size()});
}
template <typename T> decltype(attribute(T())) attribute(const std::optional<T> &value) {
  return value ? attribute(*value) : nullptr;
}
// The case of an enumeration, which has the record's numbers.
template <typename Attribute, typename Enumeration> Attribute attribute(Enumeration value) {
  using Case = decltype(Attribute().getValue());
  return Attribute::get(&recorder().ir->context(), static_cast<Case>(value));
}

} // namespace weft::recorder
