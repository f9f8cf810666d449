#include "weft/data/subset.h"

#include <numeric>
#include <string>

#include "weft/data/random.h"

namespace weft::data {

Subset::Subset(DatasetPtr whole, std::vector<int64_t> items, Location location)
    : whole_(std::move(whole)), items_(std::move(items)) {
  if (!whole_)
    throw Error(ErrorKind::kValue, "Subset: the data set is null", location);
  for (int64_t item : items_)
    if (item < 0 || item >= whole_->size())
      throw Error(ErrorKind::kIndex,
                  "Subset: there is no item " + std::to_string(item) + " in a data set of " +
                      std::to_string(whole_->size()),
                  location);
}

std::vector<int64_t> Subset::mapped(std::span<const int64_t> items) const {
  std::vector<int64_t> result;
  result.reserve(items.size());
  for (int64_t item : items)
    result.push_back(items_[static_cast<size_t>(item)]);
  return result;
}

HostBatch Subset::fetch(std::span<const int64_t> items) const {
  return whole_->fetch(mapped(items));
}
HostBatch Subset::fetch_seeded(std::span<const int64_t> items, uint64_t seed) const {
  return whole_->fetch_seeded(mapped(items), seed);
}

std::vector<Subset> random_split(DatasetPtr whole, const std::vector<int64_t> &sizes, uint64_t seed,
                                 Location location) {
  if (!whole)
    throw Error(ErrorKind::kValue, "random_split: the data set is null", location);
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0)
      throw Error(ErrorKind::kValue, "random_split: a part of " + std::to_string(size) + " items",
                  location);
    total += size;
  }
  if (total != whole->size())
    throw Error(ErrorKind::kValue,
                "random_split: the parts have " + std::to_string(total) +
                    " items, the data set has " + std::to_string(whole->size()),
                location);
  std::vector<int64_t> order(static_cast<size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 generator(seed);
  for (int64_t i = total - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[generator.below(static_cast<uint64_t>(i + 1))]);
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (int64_t size : sizes) {
    parts.emplace_back(whole, std::vector<int64_t>(begin, begin + size), location);
    begin += size;
  }
  return parts;
}

} // namespace weft::data
