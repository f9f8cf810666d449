#include "weft/data/tensors.h"

namespace weft::data {
namespace {

HostArray copy_of(const Tensor &tensor, Location location) {
  HostArray array = HostArray::empty(tensor.dtype(), tensor.shape());
  if (!array.bytes.empty())
    std::memcpy(array.bytes.data(), tensor.data_bytes(location), array.bytes.size());
  return array;
}

HostArray rows(const HostArray &from, std::span<const int64_t> items) {
  std::vector<int64_t> shape = from.shape;
  size_t row = shape[0] == 0 ? 0 : from.bytes.size() / static_cast<size_t>(shape[0]);
  shape[0] = static_cast<int64_t>(items.size());
  HostArray array = HostArray::empty(from.dtype, shape);
  for (size_t i = 0; i < items.size() && row > 0; ++i)
    std::memcpy(array.bytes.data() + i * row,
                from.bytes.data() + static_cast<size_t>(items[i]) * row, row);
  return array;
}

} // namespace

TensorDataset::TensorDataset(const Tensor &inputs, const Tensor &targets, Location location) {
  for (const auto &[tensor, name] : {std::pair(&inputs, "inputs"), std::pair(&targets, "targets")})
    if (!tensor->defined())
      throw Error(ErrorKind::kState, std::string("TensorDataset: ") + name + " is undefined",
                  location);
  for (const auto &[tensor, name] : {std::pair(&inputs, "inputs"), std::pair(&targets, "targets")})
    if (tensor->ndim() == 0)
      throw Error(ErrorKind::kShape,
                  std::string("TensorDataset: ") + name +
                      " has no dimensions; its first one counts the items, so that one item of a "
                      "number is unsqueeze(0) of it",
                  location);
  if (inputs.size(0) != targets.size(0))
    throw Error(ErrorKind::kShape,
                "TensorDataset: inputs and targets must have equal first dimensions, they are " +
                    to_string(inputs.shape()) + " and " + to_string(targets.shape()),
                location);
  size_ = inputs.size(0);
  inputs_ = copy_of(inputs, location);
  targets_ = copy_of(targets, location);
}

HostBatch TensorDataset::fetch(std::span<const int64_t> items) const {
  return {rows(inputs_, items), rows(targets_, items)};
}

} // namespace weft::data
