#include "backends/cpu/device/pack_entry.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/cpu/device/matmul_entry.h"
#include "backends/cpu/device/row_major.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::TensorRef;

// A product that reads what `call` writes. Its operands lie nowhere: what is asked of it is the
// form of one.
absl::StatusOr<LibraryCall> product_of(const LibraryCall &call) {
  if (call.operands.size() != 2 || call.inputs != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", call.operands.size(), " operands; there must be rhs and out"));
  const TensorRef &rhs = call.operands[0], &out = call.operands[1];
  if (rhs.dims != out.dims || rhs.strides != out.strides ||
      rhs.strides != row_major(rhs.dims).strides || rhs.dtype != out.dtype)
    return absl::InvalidArgumentError(
        "rhs and out must be row-major, with the same dims and dtype");
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> lhs, runtime::config_ints(call.config, "lhs"));
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> result, runtime::config_ints(call.config, "out"));
  WEFT_ASSIGN_OR_RETURN(int64_t bias, runtime::config_int(call.config, "bias", 0));
  WEFT_ASSIGN_OR_RETURN(std::string post_ops, runtime::config_string(call.config, "post_ops", ""));
  for (const auto *dims : {&lhs, &result})
    if (dims->size() != 2 ||
        std::any_of(dims->begin(), dims->end(), [](int64_t dim) { return dim < 0; }))
      return absl::InvalidArgumentError("config keys 'lhs' and 'out' are the dims of matrices");
  LibraryCall product;
  product.entry = "onednn.matmul";
  product.config = call.config;
  product.operands = {row_major(lhs), rhs};
  if (bias != 0)
    product.operands.push_back(row_major({result.back()}));
  for (absl::string_view op : absl::StrSplit(post_ops, ',', absl::SkipEmpty()))
    if (op != "relu")
      product.operands.push_back(row_major(result));
  product.inputs = static_cast<int32_t>(product.operands.size());
  product.operands.push_back(row_major(result));
  return product;
}

class PackState : public LibraryCallState {
public:
  PackState(std::unique_ptr<runtime::PackedCallState> product, int64_t bytes)
      : product_(std::move(product)), bytes_(bytes) {}
  absl::Status run(std::span<void *const> operands, void *) override {
    if (product_)
      return product_->pack(operands[0], operands[1]);
    std::memcpy(operands[1], operands[0], static_cast<size_t>(bytes_));
    return absl::OkStatus();
  }

private:
  std::unique_ptr<runtime::PackedCallState> product_; // null for a plain copy
  int64_t bytes_;
};

class PackEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "onednn.pack";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int threads) const override {
    WEFT_ASSIGN_OR_RETURN(LibraryCall product, product_of(call));
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<runtime::PackedCallState> state,
                          matmul_with_packed_rhs(product, threads));
    int64_t bytes = byte_size(call.operands[0].dtype);
    for (int64_t dim : call.operands[0].dims)
      bytes *= dim;
    return std::make_unique<PackState>(std::move(state), bytes);
  }
};

} // namespace

const runtime::LibraryEntry &pack_entry() {
  static const PackEntry entry;
  return entry;
}

} // namespace weft::backends::cpu
