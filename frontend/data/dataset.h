// What a DataLoader reads: a numbered collection of (input, target) pairs, typed at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "runtime/core/dtype.h"
#include "weft/error.h"

namespace weft::data {

// A row-major array in ordinary memory. Data sets yield these and not tensors: they run on the
// loader's thread, and a tensor is made where the batch is used.
struct HostArray {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes; // product of shape, times the size of an element

  // An array of this dtype and shape, all bytes 0.
  static HostArray empty(DType dtype, std::vector<int64_t> shape) {
    HostArray array{dtype, std::move(shape), {}};
    int64_t size = byte_size(dtype);
    for (int64_t dim : array.shape)
      size *= dim;
    array.bytes.resize(static_cast<size_t>(size));
    return array;
  }
  // The elements, which T must fit: nothing is converted.
  template <typename T> std::span<T> as() {
    return {reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T> std::span<const T> as() const {
    return {reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// Some items of a data set.
struct HostBatch {
  HostArray input, target; // both with the items along dim 0; a target may be left out, as made
};

// A data set. Implement size() and fetch(); give it to a DataLoader.
class Dataset {
public:
  virtual ~Dataset() = default;

  // How many items there are; constant.
  virtual int64_t size() const = 0;

  // The items, stacked along a new dim 0, in the order asked for. Every item is in [0, size()).
  // Called by the loader's thread; an exception reaches whoever asks the loader for the batch.
  virtual HostBatch fetch(std::span<const int64_t> items) const = 0;

  // What the loader calls: fetch() with a seed for what is random in a data set
  // (image/transforms.h). It is the same for the same loader seed, epoch and batch, and differs
  // between batches and epochs.
  virtual HostBatch fetch_seeded(std::span<const int64_t> items, uint64_t seed) const {
    (void)seed;
    return fetch(items);
  }
};

// Where errors of a data set stand: at the line of the DataLoader that asks for the batch on this
// thread, else at `otherwise`, as the line that made the data set.
Location asked_at(Location otherwise);

using DatasetPtr = std::shared_ptr<const Dataset>;

} // namespace weft::data
