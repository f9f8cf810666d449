// What a classifier takes its inputs for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace examples {

// With more, the counts alone take over 8 GiB: a label of such a number is no class. ImageNet with
// all of its classes has 21,841.
inline constexpr int64_t kMostClasses = int64_t{1} << 15;

// How often each class was taken for each: row: what it is, column: what it was taken for.
struct Confusion {
  explicit Confusion(int64_t classes = 0)
      : classes(classes), counts(static_cast<size_t>(classes * classes), 0) {}

  int64_t classes;
  std::vector<int64_t> counts;

  void add(int64_t is, int64_t taken) {
    ++counts[static_cast<size_t>(is * classes + taken)];
  }
  int64_t at(int64_t is, int64_t taken) const {
    return counts[static_cast<size_t>(is * classes + taken)];
  }
  int64_t total() const;
  double accuracy() const; // 0 to 1
};

// A table of them, with the names of the classes in front of the rows and numbers above the
// columns; without names, numbers on both sides.
std::string table_of(const Confusion &confusion, std::span<const std::string> names = {});

} // namespace examples
