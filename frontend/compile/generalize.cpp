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
    if (!sizes[i].is_free())
      continue;
    if (int64_t k = multiple(values, *known[i])) {
      size.coefficient = k;
      size.factors = {i};
      return;
    }
  }
  for (uint32_t i = 0; i < sizes.size(); ++i)
    for (uint32_t j = i; j < sizes.size(); ++j) {
      if (!sizes[i].is_free() || !sizes[j].is_free())
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

bool generalize(const Observations &observations, const std::vector<IntPosition> &positions,
                bool sizes_as_scalars, Generalization &result, std::string &why) {
  const Ints &newest = *observations.back();
  Observations kept;
  for (const Ints *other : observations) {
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
    for (const Ints *ints : kept) {
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
    if (size.is_free()) {
      size.name = "s" + std::to_string(result.free_sizes().size());
      size.low = kSmallestSize;
      size.high = power_of_two_above(*std::max_element(key.second.begin(), key.second.end()));
    } else {
      size.low = size.product([&](uint32_t factor) { return result.sizes[factor].low; });
      size.high = size.coefficient;
      // In alphabetical order: one name for one product.
      std::vector<std::string> names;
      for (uint32_t factor : size.factors)
        names.push_back(result.sizes[factor].name);
      std::sort(names.begin(), names.end());
      for (const std::string &name : names)
        size.name += (size.name.empty() ? "" : ".") + name;
      for (uint32_t factor : size.factors)
        if (__builtin_mul_overflow(size.high, result.sizes[factor].high, &size.high)) {
          why = "a size would exceed 2^63";
          return false;
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

std::optional<Generalization::Match> Generalization::match(const Ints &other) const {
  if (other.size() != ints.size())
    return std::nullopt;
  Match values;
  for (const Size &size : sizes) {
    int64_t value = other[size.position];
    if (value < size.low || value > size.high)
      return std::nullopt;
    // The product cannot overflow: the bounds of its factors do not.
    if (!size.is_free() &&
        size.product([&](uint32_t factor) { return values.sizes[factor]; }) != value)
      return std::nullopt;
    values.sizes.push_back(value);
  }
  for (const Scalar &scalar : scalars)
    values.scalars.push_back(other[scalar.position]);
  for (size_t p = 0; p < ints.size(); ++p) {
    int32_t c = classes[p];
    int64_t expected = c == kConstant                           ? ints[p]
                       : c < static_cast<int32_t>(sizes.size()) ? values.sizes[c]
                                                                : values.scalars[c - sizes.size()];
    if (other[p] != expected)
      return std::nullopt;
  }
  return values;
}

void Generalization::cut_ranges(const Ints &near) {
  std::vector<uint32_t> free = free_sizes();
  double planned = 1;
  for (uint32_t size : free)
    planned *= static_cast<double>(sizes[size].high) /
               static_cast<double>(std::max<int64_t>(1, near[sizes[size].position]));
  if (free.size() < 2 || planned <= kMostPlanned)
    return;
  for (uint32_t size : free)
    sizes[size].high =
        std::min(sizes[size].high, 2 * power_of_two_above(near[sizes[size].position]));
  bound_products();
}

bool Generalization::raise_ranges() {
  bool raised = false;
  for (uint32_t each : free_sizes()) {
    Size &size = sizes[each];
    int64_t low = kSmallestSize;
    while (low * 2 <= std::min(size.least, size.low * kRangeStep))
      low *= 2;
    raised |= low > size.low;
    size.low = std::max(low, size.low);
  }
  bound_products();
  return raised;
}

void Generalization::bound_products() {
  for (Size &size : sizes) {
    if (size.is_free())
      continue;
    size.low = size.product([&](uint32_t factor) { return sizes[factor].low; });
    size.high = size.product([&](uint32_t factor) { return sizes[factor].high; });
  }
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
  for (uint32_t size : free_sizes())
    std::tie(sizes[size].low, sizes[size].high) = range;
  bound_products();
}

std::vector<uint32_t> Generalization::free_sizes() const {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < sizes.size(); ++i)
    if (sizes[i].is_free())
      result.push_back(i);
  return result;
}

std::vector<Ints> hold_other_sizes(const Observations &observations,
                                   const std::vector<IntPosition> &positions,
                                   const Generalization &general, uint32_t varies) {
  std::vector<Ints> result;
  for (const Ints *ints : observations) {
    if ((*ints)[general.sizes[varies].position] > general.sizes[varies].high)
      continue;  // it was left out
    Ints values; // by size; cannot overflow, as the ends of ranges do not
    for (uint32_t i = 0; i < general.sizes.size(); ++i) {
      const Generalization::Size &size = general.sizes[i];
      values.push_back(!size.is_free()
                           ? size.product([&](uint32_t factor) { return values[factor]; })
                           : (i == varies ? *ints : general.ints)[size.position]);
    }
    Ints &held = result.emplace_back(general.ints);
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
  for (const Scalar &scalar : scalars)
    text += "a" + std::to_string(scalar.position);
  return text;
}

} // namespace weft::recorder
