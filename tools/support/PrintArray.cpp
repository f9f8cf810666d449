#include "tools/support/PrintArray.h"

#include <cmath>
#include <cstdio>
#include <cstring>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::tools {
namespace {

constexpr int64_t kEdge = 3;

template <typename T> T load(const runtime::ArrayView &array, int64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::string formatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += '.';
  return result;
}

std::string element(const runtime::ArrayView &array, int64_t i) {
  auto small = [&](const llvm::fltSemantics &semantics) {
    llvm::APFloat value(semantics, llvm::APInt(16, load<uint16_t>(array, i)));
    return formatFloat(value.convertToDouble());
  };
  switch (array.dtype) {
  case DType::kFloat32: return formatFloat(load<float>(array, i));
  case DType::kFloat64: return formatFloat(load<double>(array, i));
  case DType::kInt32: return std::to_string(load<int32_t>(array, i));
  case DType::kInt64: return std::to_string(load<int64_t>(array, i));
  case DType::kBool: return load<uint8_t>(array, i) ? "True" : "False";
  case DType::kBFloat16: return small(llvm::APFloat::BFloat());
  case DType::kFloat16: return small(llvm::APFloat::IEEEhalf());
  case DType::kInt8: return std::to_string(load<int8_t>(array, i));
  case DType::kInt16: return std::to_string(load<int16_t>(array, i));
  case DType::kUInt8: return std::to_string(load<uint8_t>(array, i));
  }
  return "?";
}

} // namespace

void printArray(llvm::raw_ostream &stream, const runtime::ArrayView &array) {
  const int64_t rank = static_cast<int64_t>(array.dims.size());
  int64_t count = 1;
  for (int64_t dim : array.dims) count *= dim;
  if (rank == 0) {
    stream << element(array, 0);
    return;
  }
  if (count == 0) {
    stream << "[]";
    return;
  }
  const bool summarize = count > kSummarizeAbove;

  // An odometer over the dimensions, outermost first: brackets open and close where digits roll over.
  llvm::SmallVector<int64_t> index(rank, 0);
  stream << std::string(rank, '[');
  for (;;) {
    int64_t offset = 0;
    for (int64_t d = 0; d < rank; ++d) offset = offset * array.dims[d] + index[d];
    stream << element(array, offset);

    int64_t d = rank - 1;
    bool skipped = false;
    for (; d >= 0; --d) {
      ++index[d];
      if (summarize && array.dims[d] > 2 * kEdge && index[d] == kEdge) {
        index[d] = array.dims[d] - kEdge;
        skipped = true;
      }
      if (index[d] < array.dims[d]) break;
      index[d] = 0;
      skipped = false;
    }
    const int64_t closed = rank - 1 - d;
    stream << std::string(closed, ']');
    if (d < 0) return;
    if (closed == 0) {
      stream << (skipped ? " ... " : " ");
      continue;
    }
    stream << std::string(closed, '\n') << std::string(d + 1, ' ');
    if (skipped) stream << "...\n" << std::string(d + 1, ' ');
    stream << std::string(closed, '[');
  }
}

} // namespace weft::tools
