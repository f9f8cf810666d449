// What attributes of ops are of what a call gives.
#pragma once

#include <bit>

#include "frontend/recorder/record/state.h"

namespace weft::recorder {

inline mlir::Builder attribute_builder() {
  return mlir::Builder(&recorder().ir->context());
}
// The attribute that make(builder) gives: one of those that were made last, where has_value() says
// so of it. MLIR finds an attribute by its value in some 500 instructions.
template <typename Attribute, typename HasValue, typename Make>
Attribute recent_attribute(uint64_t hash, HasValue has_value, Make make) {
  mlir::Attribute &recent = recorder().ir->recent_attribute(hash);
  auto found = llvm::dyn_cast_if_present<Attribute>(recent);
  if (!found || !has_value(found))
    recent = found = make(attribute_builder());
  return found;
}
inline mlir::BoolAttr attribute(bool value) {
  return attribute_builder().getBoolAttr(value);
}
inline mlir::IntegerAttr attribute(int64_t value) {
  return recent_attribute<mlir::IntegerAttr>(
      static_cast<uint64_t>(value),
      [&](mlir::IntegerAttr found) { return found.getInt() == value; },
      [&](mlir::Builder builder) { return builder.getI64IntegerAttr(value); });
}
inline mlir::FloatAttr attribute(double value) {
  auto bits = std::bit_cast<uint64_t>(value);
  return recent_attribute<mlir::FloatAttr>(
      bits, [&](mlir::FloatAttr found) { return found.getValue().bitcastToAPInt() == bits; },
      [&](mlir::Builder builder) { return builder.getF64FloatAttr(value); });
}
inline mlir::StringAttr attribute(std::string_view value) {
  return attribute_builder().getStringAttr(value);
}
inline mlir::DenseI64ArrayAttr attribute(std::span<const int64_t> values) {
  llvm::ArrayRef<int64_t> array(values.data(), values.size());
  uint64_t hash = 1000003; // far from numbers, of which most are small
  for (int64_t value : values)
    hash = hash * 31 + static_cast<uint64_t>(value);
  return recent_attribute<mlir::DenseI64ArrayAttr>(
      hash, [&](mlir::DenseI64ArrayAttr found) { return found.asArrayRef() == array; },
      [&](mlir::Builder builder) { return builder.getDenseI64ArrayAttr(array); });
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
