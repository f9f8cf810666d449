// The one kind of counting pointer: to values, to history, to what is interned.
#pragma once

#include <utility>

namespace weft::recorder {

// By retain(T &) and release(T &), which take the recorder's lock where a call has not.
template <typename T> struct Counted {
  static void add(T &object) {
    retain(object);
  }
  static void drop(T &object) {
    release(object);
  }
};

// Stands for the pointer.
template <typename T, typename Count = Counted<T>> class Ref {
public:
  Ref() = default;
  Ref(T *object) : object_(object) {
    if (object_)
      Count::add(*object_);
  }
  Ref(const Ref &other) : Ref(other.object_) {}
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_)
      Count::drop(*object_);
  }
  T *get() const {
    return object_;
  }
  operator T *() const {
    return object_;
  }
  T &operator*() const {
    return *object_;
  }
  T *operator->() const {
    return object_;
  }
  explicit operator bool() const {
    return object_ != nullptr;
  }

private:
  T *object_ = nullptr;
};

} // namespace weft::recorder
