// Tensors as a data set: item i is row i of the inputs and of the targets.
#pragma once

#include "weft/data/dataset.h"
#include "weft/tensor.h"

namespace weft::data {

// Rows of two tensors in memory.
class TensorDataset : public Dataset {
public:
  // Copies the values (computed now). Throws Error when one has no dimension, or their first
  // dimensions differ.
  TensorDataset(const Tensor &inputs, const Tensor &targets,
                Location location = Location::current());

  int64_t size() const override {
    return size_;
  }
  HostBatch fetch(std::span<const int64_t> items) const override;

private:
  HostArray inputs_, targets_;
  int64_t size_;
};

} // namespace weft::data
