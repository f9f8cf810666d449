#include "frontend/compile/generalize.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace weft::recorder {
namespace {

// Sizes of 0 and 1 are never matched by a name.
constexpr int64_t kSmallestSize = 2;
// By how much a range begins later at each attempt: few attempts find where, within that.
constexpr int64_t kRangeStep = 8;
// A program is planned for the largest sizes together. Those of batches that are filled up to a
// number of tokens never meet: long texts are few. What is planned for more than this many times
// the elements that there are takes a program of its own for other sizes.
constexpr double kMostPlanned = 64;

using Values = std::vector<int64_t>; // of one position, by observation

int64_t power_of_two_above(int64_t value) {
  int64_t power = kSmallestSize;
  while (power < value && power <= INT64_MAX / 2)
    power *= 2;
  return std::max(power, value);
}

// The number k with a = k * b in all observations; 0 for none.
int64_t multiple(const Values &a, const Values &b) {
  int64_t k = b[0] > 0 ? a[0] / b[0] : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t product;
    if (__builtin_mul_overflow(k, b[i], &product) || product != a[i])
      return 0;
  }
  return k;
}

Values product(const Values &a, const Values &b) {
  Values result(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (__builtin_mul_overflow(a[i], b[i], &result[i]))
      return {};
  return result;
}

// Expresses a size by the free ones before it, by one or by two.
void express(Generalization::Size &size, const Values &values,
             const std::vector<Generalization::Size> &sizes,
             const std::vector<const Values *> &known) {
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].factors.empty())
      continue;
    if (int64_t k = multiple(values, *known[i])) {
      size.coefficient = k;
      size.factors = {i};
      return;
    }
  }
  for (uint32_t i = 0; i < sizes.size(); ++i)
    for (uint32_t j = i; j < sizes.size(); ++j) {
      if (!sizes[i].factors.empty() || !sizes[j].factors.empty())
        continue;
      Values both = product(*known[i], *known[j]);
      if (int64_t k = both.empty() ? 0 : multiple(values, both)) {
        size.coefficient = k;
        size.factors = {i, j};
        return;
      }
    }
}

} // namespace

bool generalize(const std::vector<const std::vector<int64_t> *> &observations,
                const std::vector<IntPosition> &positions, bool sizes_as_scalars,
                Generalization &result, std::string &why) {
  const std::vector<int64_t> &newest = *observations.back();
  std::vector<const std::vector<int64_t> *> kept;
  for (const std::vector<int64_t> *other : observations) {
    bool fits = true;
    for (size_t p = 0; p < positions.size() && fits; ++p)
      fits = positions[p].kind != IntPosition::Kind::kSize || (*other)[p] == newest[p] ||
             std::min((*other)[p], newest[p]) >= kSmallestSize;
    if (fits)
      kept.push_back(other);
    else
      why = "a size of 0 or 1 means no elements or broadcasting, and is compiled by itself";
  }
  result = Generalization();
  result.ints = newest;
  result.classes.assign(newest.size(), Generalization::kConstant);
  // Classes in the order of their values, so that sizes that others are multiples of come first.
  std::map<std::pair<IntPosition::Kind, Values>, std::vector<uint32_t>> classes;
  for (uint32_t p = 0; p < positions.size(); ++p) {
    Values values;
    bool varies = false;
    for (const std::vector<int64_t> *ints : kept) {
      values.push_back((*ints)[p]);
      varies |= values.back() != newest[p];
    }
    if (varies)
      classes[{positions[p].kind, std::move(values)}].push_back(p);
  }
  if (classes.empty())
    return false;
  why.clear();
  std::vector<const Values *> known;
  for (const auto &[key, members] : classes) {
    if (key.first != IntPosition::Kind::kSize)
      continue;
    for (uint32_t p : members)
      result.classes[p] = static_cast<int32_t>(result.sizes.size());
    Generalization::Size size;
    size.position = members.front();
    size.least = *std::min_element(key.second.begin(), key.second.end());
    express(size, key.second, result.sizes, known);
    if (size.factors.empty()) {
      int64_t number = 0;
      for (const Generalization::Size &other : result.sizes)
        number += other.factors.empty();
      size.name = "s" + std::to_string(number);
      size.low = kSmallestSize;
      size.high = power_of_two_above(*std::max_element(key.second.begin(), key.second.end()));
    } else {
      size.low = size.high = size.coefficient;
      // In alphabetical order: one name for one product.
      std::vector<std::string> names;
      for (uint32_t factor : size.factors)
        names.push_back(result.sizes[factor].name);
      std::sort(names.begin(), names.end());
      for (const std::string &name : names)
        size.name += (size.name.empty() ? "" : ".") + name;
      for (uint32_t factor : size.factors) {
        size.low *= result.sizes[factor].low;
        if (__builtin_mul_overflow(size.high, result.sizes[factor].high, &size.high)) {
          why = "a size would exceed 2^63";
          return false;
        }
      }
      if (size.coefficient != 1)
        size.name += "." + std::to_string(size.coefficient);
    }
    known.push_back(&key.second);
    result.sizes.push_back(std::move(size));
  }
  result.cut_ranges(newest);
  for (const auto &[key, members] : classes) {
    if (key.first == IntPosition::Kind::kSize)
      continue;
    for (uint32_t p : members)
      result.classes[p] = static_cast<int32_t>(result.sizes.size() + result.scalars.size());
    result.scalars.push_back({key.first, members.front()});
  }
  if (sizes_as_scalars)
    for (const Generalization::Size &size : result.sizes)
      result.scalars.push_back({IntPosition::Kind::kSize, size.position});
  return true;
}

bool Generalization::matches(const std::vector<int64_t> &other, std::vector<int64_t> &size_values,
                             std::vector<int64_t> &scalar_values) const {
  if (other.size() != ints.size())
    return false;
  size_values.clear();
  scalar_values.clear();
  for (const Size &size : sizes) {
    int64_t value = other[size.position];
    if (value < size.low || value > size.high)
      return false;
    if (!size.factors.empty()) {
      int64_t expected = size.coefficient; // cannot overflow: the bounds of the factors do not
      for (uint32_t factor : size.factors)
        expected *= size_values[factor];
      if (expected != value)
        return false;
    }
    size_values.push_back(value);
  }
  for (const Scalar &scalar : scalars)
    scalar_values.push_back(other[scalar.position]);
  for (size_t p = 0; p < ints.size(); ++p) {
    int32_t c = classes[p];
    int64_t expected = c == kConstant                           ? ints[p]
                       : c < static_cast<int32_t>(sizes.size()) ? size_values[c]
                                                                : scalar_values[c - sizes.size()];
    if (other[p] != expected)
      return false;
  }
  return true;
}

void Generalization::cut_ranges(const std::vector<int64_t> &near) {
  std::vector<uint32_t> free = free_sizes();
  double planned = 1;
  for (uint32_t size : free)
    planned *= static_cast<double>(sizes[size].high) /
               static_cast<double>(std::max<int64_t>(1, near[sizes[size].position]));
  if (free.size() < 2 || planned <= kMostPlanned)
    return;
  for (Size &size : sizes) {
    if (size.factors.empty()) {
      size.high = std::min(size.high, 2 * power_of_two_above(near[size.position]));
      continue;
    }
    size.high = size.coefficient;
    for (uint32_t factor : size.factors)
      size.high *= sizes[factor].high;
  }
}

bool Generalization::raise_ranges() {
  bool raised = false;
  for (Size &size : sizes) {
    int64_t low = size.coefficient;
    if (size.factors.empty()) {
      low = kSmallestSize;
      while (low * 2 <= std::min(size.least, size.low * kRangeStep))
        low *= 2;
      low = std::max(low, size.low);
    }
    for (uint32_t factor : size.factors)
      low *= sizes[factor].low;
    raised |= low != size.low;
    size.low = low;
  }
  return raised;
}

std::vector<std::pair<int64_t, int64_t>> Generalization::ranges_around() const {
  std::vector<uint32_t> free = free_sizes();
  if (free.size() != 1)
    return {};
  const Size &size = sizes[free[0]];
  const std::pair<int64_t, int64_t> all(size.low, size.high);
  int64_t at = ints[size.position], later = size.low, sooner = size.high;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  while (later < at || at < sooner) {
    later = at - (at - later) / 2;
    sooner = at + (sooner - at) / 2;
    for (std::pair<int64_t, int64_t> range :
         {std::pair(size.low, sooner), std::pair(later, size.high), std::pair(later, sooner)})
      if (range.first < range.second && range != all &&
          std::find(ranges.begin(), ranges.end(), range) == ranges.end())
        ranges.push_back(range);
  }
  return ranges;
}

void Generalization::set_range(std::pair<int64_t, int64_t> range) {
  for (Size &size : sizes) {
    std::tie(size.low, size.high) =
        size.factors.empty() ? range : std::pair(size.coefficient, size.coefficient);
    for (uint32_t factor : size.factors) {
      size.low *= sizes[factor].low;
      size.high *= sizes[factor].high;
    }
  }
}

std::vector<uint32_t> Generalization::free_sizes() const {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < sizes.size(); ++i)
    if (sizes[i].factors.empty())
      result.push_back(i);
  return result;
}

std::vector<std::vector<int64_t>>
hold_other_sizes(const std::vector<const std::vector<int64_t> *> &observations,
                 const std::vector<IntPosition> &positions, const Generalization &general,
                 uint32_t varies) {
  std::vector<std::vector<int64_t>> result;
  for (const std::vector<int64_t> *ints : observations) {
    if ((*ints)[general.sizes[varies].position] > general.sizes[varies].high)
      continue;                  // it was left out
    std::vector<int64_t> values; // by size; cannot overflow, as the ends of ranges do not
    for (uint32_t i = 0; i < general.sizes.size(); ++i) {
      const Generalization::Size &size = general.sizes[i];
      values.push_back(!size.factors.empty() ? size.coefficient
                       : i == varies         ? (*ints)[size.position]
                                             : general.ints[size.position]);
      for (uint32_t factor : size.factors)
        values.back() *= values[factor];
    }
    std::vector<int64_t> &held = result.emplace_back(general.ints);
    for (size_t p = 0; p < held.size(); ++p)
      if (general.classes[p] == Generalization::kConstant)
        continue;
      else if (positions[p].kind == IntPosition::Kind::kSize)
        held[p] = values[static_cast<size_t>(general.classes[p])];
      else
        held[p] = (*ints)[p];
  }
  return result;
}

std::string Generalization::text() const {
  std::string text;
  for (size_t p = 0; p < ints.size(); ++p)
    text += classes[p] == kConstant ? std::to_string(ints[p]) + ","
                                    : "c" + std::to_string(classes[p]) + ",";
  for (const Size &size : sizes)
    text += size.name + "[" + std::to_string(size.low) + "," + std::to_string(size.high) + "]";
  return text;
}

} // namespace weft::recorder
