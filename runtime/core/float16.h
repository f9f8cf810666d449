// Conversions of the 16-bit floats on the host: to float32, which is exact, and from float32 and
// float64, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

constexpr float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t float_to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40); // NaN, kept quiet
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float float16_to_float(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
           mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa ? mantissa << 13 | 0x00400000u : 0));
  if (exponent > 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f; // subnormal: exact in float32
  return sign ? -magnitude : magnitude;
}

constexpr uint16_t float_to_float16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000u)
    return static_cast<uint16_t>(sign | 0x7c00); // 2^16 and above
  // Below the normal range: adding 0.5 rounds, since the last place of a number in [0.5, 1) is that
  // of float16's subnormals.
  if (magnitude < 0x38800000u)
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u));
  // The exponent is rebased. A carry out of the mantissa gives the next exponent, up to infinity,
  // which is right.
  return static_cast<uint16_t>(sign |
                               ((magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

// Toward zero, with the last bit set where anything is lost: as many digits more as float32 has,
// that bit tells a tie from what is above or below, so that rounding twice is rounding once.
constexpr float double_to_odd_float(double value) {
  float rounded = static_cast<float>(value);
  if (value != value || static_cast<double>(rounded) == value)
    return rounded;
  uint32_t bits = std::bit_cast<uint32_t>(rounded);
  double magnitude = value < 0 ? -value : value;
  if (std::bit_cast<float>(bits & 0x7fffffffu) > magnitude)
    --bits;
  return std::bit_cast<float>(bits | 1);
}

constexpr uint16_t double_to_bfloat16(double value) {
  return float_to_bfloat16(double_to_odd_float(value));
}

constexpr uint16_t double_to_float16(double value) {
  return float_to_float16(double_to_odd_float(value));
}

} // namespace weft
