// The one kind of counting pointer: to values, to history, to what is interned.
#pragma once

#include <utility>

namespace weft::recorder {

// Counts by retain(T &) and release(T &), which take the recorder's lock where a call has not.
template <typename T> class Handle {
public:
  Handle() = default;
  explicit Handle(T *object) : object_(object) {
    if (object_)
      retain(*object_);
  }
  Handle(const Handle &other) : Handle(other.object_) {}
  Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_)
      release(*object_);
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
