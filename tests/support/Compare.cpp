#include "tests/support/Compare.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace weft::tests {

using ir::HostTensor;

static std::string spellShape(const HostTensor &tensor) {
  std::string text = std::string(name(tensor.dtype)) + "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

static std::string differentType(const HostTensor &actual, const HostTensor &expected) {
  if (actual.dtype == expected.dtype && actual.shape == expected.shape)
    return "";
  return "is " + spellShape(actual) + ", expected " + spellShape(expected);
}

static std::string differentElement(int64_t i, double actual, double expected) {
  char text[160];
  std::snprintf(text, sizeof text, "element %lld is %.17g, expected %.17g",
                static_cast<long long>(i), actual, expected);
  return text;
}

std::string compareExact(const HostTensor &actual, const HostTensor &expected) {
  if (std::string different = differentType(actual, expected); !different.empty())
    return different;
  int64_t width = byte_size(actual.dtype);
  for (int64_t i = 0, n = actual.size(); i < n; ++i) {
    if (std::memcmp(actual.bytes.data() + i * width, expected.bytes.data() + i * width, width) == 0)
      continue;
    double a = actual.getDouble(i), e = expected.getDouble(i);
    if (is_floating(actual.dtype) && std::isnan(a) && std::isnan(e))
      continue;
    return differentElement(i, a, e);
  }
  return "";
}

// The distance of neighbours around x.
static double unitInTheLastPlace(DType dtype, double x) {
  x = std::abs(x);
  if (dtype == DType::kBFloat16 || dtype == DType::kFloat16) {
    // The significand's bits and the exponent of the least subnormal.
    auto [bits, least] = dtype == DType::kBFloat16 ? std::pair(8, -133) : std::pair(11, -24);
    return std::ldexp(1.0, x == 0 ? least : std::max(std::ilogb(x) - bits + 1, least));
  }
  if (dtype == DType::kFloat64)
    return std::nextafter(x, std::numeric_limits<double>::infinity()) - x;
  float f = static_cast<float>(x);
  if (std::isinf(f))
    f = std::numeric_limits<float>::max();
  return static_cast<double>(std::nextafter(f, std::numeric_limits<float>::infinity())) -
         static_cast<double>(f);
}

std::string compareWithin(const HostTensor &actual, const HostTensor &expected, double ulps,
                          const std::vector<double> &bound) {
  if (!is_floating(expected.dtype))
    return compareExact(actual, expected);
  if (std::string different = differentType(actual, expected); !different.empty())
    return different;
  for (int64_t i = 0, n = actual.size(); i < n; ++i) {
    double a = actual.getDouble(i), e = expected.getDouble(i);
    if (!bound.empty() && std::isinf(bound.size() == 1 ? bound[0] : bound[static_cast<size_t>(i)]))
      continue;
    if (std::isnan(e) || std::isnan(a)) {
      if (std::isnan(e) != std::isnan(a))
        return differentElement(i, a, e);
      continue;
    }
    if (a == e) {
      // Signed zeros are told apart where the result must be exact.
      if (ulps == 0 && bound.empty() && a == 0 && std::signbit(a) != std::signbit(e))
        return differentElement(i, a, e);
      continue;
    }
    double allowed = ulps * unitInTheLastPlace(expected.dtype, e);
    if (!bound.empty())
      allowed = std::max(allowed, bound.size() == 1 ? bound[0] : bound[i]);
    // Rounding to f32 may overflow within the budget of the largest numbers.
    if (std::isinf(a) || std::isinf(e) || !(std::abs(a - e) <= allowed))
      return differentElement(i, a, e);
  }
  return "";
}

} // namespace weft::tests
