// The tensors that random programs start from.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/fuzz/calls.h"

namespace weft::fuzz {

int Draw::value(const std::function<bool(const Tensor &)> &fits) {
  std::vector<int> found;
  for (size_t i = 0; i < values_->size(); ++i)
    if (fits((*values_)[i]))
      found.push_back(static_cast<int>(i));
  if (found.empty())
    return -1;
  // Of the last four in most cases, so that chains grow.
  int64_t n = static_cast<int64_t>(found.size()), last = std::min<int64_t>(n, 4);
  return found[static_cast<size_t>(random.chance(0.7) ? n - 1 - random.below(last)
                                                      : random.below(n))];
}

int Draw::numbers(DType dtype, const Shape &shape, double low, double high, bool finite) {
  auto thousandths = [](double x) {
    return static_cast<int64_t>(std::lround(x * kScalarUnit));
  };
  int64_t special = random.chance(0.03) && !finite,
          gradient = is_floating(dtype) && random.chance(0.6);
  return add({"input",
              {},
              {{static_cast<int64_t>(dtype), random.below(1000), thousandths(low),
                thousandths(high), special, gradient},
               shape}});
}

int Draw::indices(const Shape &shape, int64_t limit) {
  return add(
      {"indices",
       {},
       {{limit, random.below(1000), static_cast<int64_t>(random.chance(0.5) ? int32 : int64)},
        shape}});
}

namespace {

// Unsigned integers take the low bits of negative numbers; 16-bit floats go through float.
template <typename T> T element(double x) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
    return T(static_cast<float>(x));
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return static_cast<T>(static_cast<int64_t>(x));
  else
    return static_cast<T>(x);
}

} // namespace

Tensor make_input(const Step &s) {
  const std::vector<int64_t> &n = s.numbers[0];
  Shape shape = s.numbers[1];
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  if (s.call == "indices") {
    Random random(static_cast<uint64_t>(n[1]));
    std::vector<int64_t> values;
    for (int64_t i = 0; i < size; ++i)
      values.push_back(random.below(n[0]) - (random.chance(0.2) ? n[0] : 0));
    // PyTorch's one_hot and losses take no negative ones.
    for (int64_t &value : values)
      value = value < 0 ? value + n[0] : value;
    return n[2] == static_cast<int64_t>(int64)
               ? Tensor::from(values, shape)
               : Tensor::from(std::vector<int32_t>(values.begin(), values.end()), shape);
  }
  DType dtype = static_cast<DType>(n[0]);
  Random random(static_cast<uint64_t>(n[1]));
  double low = static_cast<double>(n[2]) / kScalarUnit,
         high = static_cast<double>(n[3]) / kScalarUnit;
  static const double kSpecial[] = {0.,
                                    -0.,
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(),
                                    std::nan(""),
                                    1e-40,
                                    -1e15,
                                    1}; // norms square them
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    double x = low + (high - low) * static_cast<double>(random.below(1 << 20)) / (1 << 20);
    if (n[4] && is_floating(dtype) && random.chance(0.2))
      x = kSpecial[random.below(8)];
    values.push_back(is_floating(dtype) || dtype == boolean ? x : std::floor(x));
  }
  if (dtype == boolean)
    for (double &x : values)
      x = std::fmod(std::abs(x * 16), 2) >= 1;
  Tensor tensor;
  switch (dtype) {
#define WEFT_FROM(T, code)                                                                         \
  case DType::code: {                                                                              \
    std::vector<T> elements;                                                                       \
    for (double x : values)                                                                        \
      elements.push_back(element<T>(x));                                                           \
    tensor = Tensor::from(elements, shape);                                                        \
    break;                                                                                         \
  }
    WEFT_ELEMENT_TYPES(WEFT_FROM)
#undef WEFT_FROM
  }
  if (n[5])
    tensor.set_requires_grad();
  return tensor;
}

} // namespace weft::fuzz
