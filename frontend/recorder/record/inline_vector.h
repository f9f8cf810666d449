// A vector that holds its first N elements itself: operands, results and edges seldom exceed them.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

namespace weft::recorder {

template <typename T, uint32_t N> class InlineVector {
public:
  InlineVector() = default;
  InlineVector(InlineVector &&other) noexcept {
    take(other);
  }
  InlineVector &operator=(InlineVector &&other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  InlineVector(const InlineVector &other) {
    reserve(other.size_);
    for (const T &x : other)
      push_back(x);
  }
  InlineVector &operator=(const InlineVector &) = delete;
  ~InlineVector() {
    destroy();
  }

  uint32_t size() const {
    return size_;
  }
  bool empty() const {
    return size_ == 0;
  }
  T *begin() {
    return data_;
  }
  T *end() {
    return data_ + size_;
  }
  const T *begin() const {
    return data_;
  }
  const T *end() const {
    return data_ + size_;
  }
  T &operator[](uint32_t i) {
    return data_[i];
  }
  const T &operator[](uint32_t i) const {
    return data_[i];
  }
  void push_back(T x) {
    if (size_ == capacity_)
      reserve(capacity_ * 2);
    new (data_ + size_++) T(std::move(x));
  }
  void resize(uint32_t n) {
    reserve(n);
    while (size_ < n)
      new (data_ + size_++) T();
    while (size_ > n)
      data_[--size_].~T();
  }
  void reserve(uint32_t n) {
    if (n <= capacity_)
      return;
    T *grown = static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t(alignof(T))));
    for (uint32_t i = 0; i < size_; ++i) {
      new (grown + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    free_heap();
    data_ = grown;
    capacity_ = n;
  }
  void clear() {
    destroy();
    size_ = 0;
    data_ = inline_data();
    capacity_ = N;
  }

private:
  T *inline_data() {
    return reinterpret_cast<T *>(storage_);
  }
  void destroy() {
    for (uint32_t i = 0; i < size_; ++i)
      data_[i].~T();
    free_heap();
  }
  void free_heap() {
    if (data_ != inline_data())
      ::operator delete(data_, std::align_val_t(alignof(T)));
  }
  void take(InlineVector &other) {
    if (other.data_ != other.inline_data()) {
      data_ = other.data_;
      size_ = other.size_;
      capacity_ = other.capacity_;
      other.data_ = other.inline_data();
      other.size_ = 0;
      other.capacity_ = N;
      return;
    }
    for (T &x : other)
      push_back(std::move(x));
    other.clear();
  }

  alignas(T) unsigned char storage_[N * sizeof(T)];
  T *data_ = inline_data();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
};

} // namespace weft::recorder
