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

template <typename T, typename Count = Counted<T>> class Handle {
public:
  Handle() = default;
  explicit Handle(T *object) : object_(object) {
    if (object_)
      Count::add(*object_);
  }
  Handle(const Handle &other) : Handle(other.object_) {}
  Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_)
      Count::drop(*object_);
  }
  T *get() const {
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
