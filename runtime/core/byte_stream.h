// Little-endian bytes in and out, for files. Reading never leaves its bytes: after the first
// failure every read gives zeros and ok() is false, so that a reader checks once, at the end of a
// group of fields.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft::runtime {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian; a big-endian machine needs swaps here");

class ByteWriter {
public:
  template <typename T> void scalar(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  void string(std::string_view value) {
    scalar<uint64_t>(value.size());
    bytes_.append(value);
  }
  template <typename Range> void scalars(const Range &values) {
    scalar<uint64_t>(values.size());
    for (auto value : values)
      scalar(value);
  }
  void raw(const void *data, size_t size) {
    bytes_.append(static_cast<const char *>(data), size);
  }
  // Zeros up to a multiple of `alignment`.
  void pad(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }
  void overwrite(size_t position, const void *data, size_t size) {
    std::memcpy(bytes_.data() + position, data, size);
  }
  size_t size() const {
    return bytes_.size();
  }
  const char *data() const {
    return bytes_.data();
  }
  std::string take() {
    return std::move(bytes_);
  }

private:
  std::string bytes_;
};

class ByteReader {
public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T> T scalar() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    if (std::span<const std::byte> piece = raw(sizeof(T)); !piece.empty())
      std::memcpy(&value, piece.data(), sizeof(T));
    return value;
  }
  // A number of items that take at least `item_bytes` bytes each. Fails if the bytes that are left
  // cannot hold as many, so that a reader which reserves room for them allocates no more than the
  // file justifies.
  size_t count(size_t item_bytes) {
    uint64_t value = scalar<uint64_t>();
    if (value > remaining() / item_bytes) {
      fail();
      return 0;
    }
    return static_cast<size_t>(value);
  }
  std::string string() {
    std::span<const std::byte> piece = raw(count(1));
    return std::string(reinterpret_cast<const char *>(piece.data()), piece.size());
  }
  template <typename T, typename Container> void scalars(Container &values) {
    size_t size = count(sizeof(T));
    values.reserve(size);
    for (size_t i = 0; i < size; ++i)
      values.push_back(scalar<T>());
  }
  std::span<const std::byte> raw(size_t size) {
    if (size > remaining()) {
      fail();
      return {};
    }
    std::span<const std::byte> piece = bytes_.subspan(position_, size);
    position_ += size;
    return piece;
  }
  void align(size_t alignment) {
    for (std::byte byte : raw((alignment - position_ % alignment) % alignment))
      if (byte != std::byte{0})
        fail();
  }
  size_t remaining() const {
    return bytes_.size() - position_;
  }
  size_t position() const {
    return position_;
  }
  bool ok() const {
    return ok_;
  }
  void fail() {
    ok_ = false;
    position_ = bytes_.size();
  }

private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// A 64-bit checksum. A change within one 8-byte word is always seen: each step is a bijection of
// the state for given data, and of the data for a given state. Not meant against forgery.
inline uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15ull;
  uint64_t state = seed ^ (bytes.size() * kPrime);
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    state = std::rotl((state ^ word) * kPrime, 29);
  }
  for (; i < bytes.size(); ++i)
    state = std::rotl((state ^ static_cast<uint64_t>(bytes[i])) * kPrime, 29);
  return state ^ (state >> 32);
}

} // namespace weft::runtime
