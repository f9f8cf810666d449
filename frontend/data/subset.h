// Parts of a data set.
#pragma once

#include <vector>

#include "weft/data/dataset.h"
#include "weft/error.h"

namespace weft::data {

// The items of another data set, in this order; an item may stand several times.
class Subset : public Dataset {
public:
  // Throws Error when the data set is null, or an item is none of it.
  Subset(DatasetPtr whole, std::vector<int64_t> items, Location location = Location::current());

  int64_t size() const override {
    return static_cast<int64_t>(items_.size());
  }
  HostBatch fetch(std::span<const int64_t> items) const override;
  HostBatch fetch_seeded(std::span<const int64_t> items, uint64_t seed) const override;
  // The numbers of its items in the whole data set.
  const std::vector<int64_t> &items() const {
    return items_;
  }

private:
  std::vector<int64_t> mapped(std::span<const int64_t> items) const;

  DatasetPtr whole_;
  std::vector<int64_t> items_;
};

// The data set cut at random into parts of these sizes, the same for the same seed. Throws Error
// unless the sizes add up to its own.
std::vector<Subset> random_split(DatasetPtr whole, const std::vector<int64_t> &sizes,
                                 uint64_t seed = 0, Location location = Location::current());

} // namespace weft::data
