// How weft::jit and weft::trace see arguments and results that are more than a tensor: as their
// tensors, in order, and as values that decide which program a call needs.
//
// Tensors, numbers, enums, strings, std::vector, array, pair, tuple, optional and map are known,
// and so are modules: anything with the functions state() and identity(), as nn::Module has them. A
// struct says what it holds, as a function that is found by its namespace, or as a member:
//
//   struct Batch { weft::Tensor images, labels; int step; };
//   void visit_tensors(Batch &batch, weft::TensorVisitor &visit) {
//     visit(batch.images), visit(batch.labels), visit(batch.step);
//   }
#pragma once

#include <array>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/tensor.h"

namespace weft {

// Is called with each tensor, and with each value that a recorded program freezes: calls with other
// values record a program of their own.
class TensorVisitor {
public:
  virtual ~TensorVisitor() = default;
  // A tensor, which the visitor may replace.
  virtual void tensor(Tensor &x) = 0;
  // The bytes of what is frozen: equal bytes mean equal values.
  virtual void value(std::string_view bytes) = 0;
  // A handle to an object, whose tensors are captured: a recording for one object serves no other
  // one, and goes with it. Null of a handle that was moved from.
  virtual void object(const std::shared_ptr<const void> &) {}

  // Visits all that x holds.
  template <typename T> TensorVisitor &operator()(T &x);
};

namespace tensor_tree {

template <typename T>
concept HasMember = requires(T &x, TensorVisitor &visit) { x.visit_tensors(visit); };
template <typename T>
concept HasFunction = requires(T &x, TensorVisitor &visit) { visit_tensors(x, visit); };
// A handle to shared tensors: they are captured, and which object it leads to decides the program.
// The object is told by what counts its handles. An address would not do: the next object gets it.
// What it holds beside tensors (a stride, a rate) nobody sees, so that two objects of one structure
// are not known to compute the same.
template <typename T>
concept IsModule = requires(T &x) {
  x.state();
  { x.identity() } -> std::convertible_to<std::shared_ptr<const void>>;
};
template <typename T>
concept IsValue = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <typename T> struct Unknown : std::false_type {};

template <typename T> void visit_bytes(const T &value, TensorVisitor &visit) {
  visit.value({reinterpret_cast<const char *>(&value), sizeof value});
}
template <typename T> void visit_range(T &range, TensorVisitor &visit) {
  visit_bytes(range.size(), visit);
  for (auto &each : range)
    visit(each);
}
template <typename T> struct Container : std::false_type {};
template <typename T, typename A> struct Container<std::vector<T, A>> : std::true_type {
  static void go(std::vector<T, A> &x, TensorVisitor &visit) {
    visit_range(x, visit);
  }
};
template <typename T, size_t N> struct Container<std::array<T, N>> : std::true_type {
  static void go(std::array<T, N> &x, TensorVisitor &visit) {
    visit_range(x, visit);
  }
};
template <typename K, typename V, typename C, typename A>
struct Container<std::map<K, V, C, A>> : std::true_type {
  static void go(std::map<K, V, C, A> &x, TensorVisitor &visit) {
    visit_bytes(x.size(), visit);
    for (auto &[key, value] : x) {
      K copy = key;
      visit(copy);
      visit(value);
    }
  }
};
template <typename T> struct Container<std::optional<T>> : std::true_type {
  static void go(std::optional<T> &x, TensorVisitor &visit) {
    visit_bytes(x.has_value(), visit);
    if (x)
      visit(*x);
  }
};
template <typename A, typename B> struct Container<std::pair<A, B>> : std::true_type {
  static void go(std::pair<A, B> &x, TensorVisitor &visit) {
    visit(x.first);
    visit(x.second);
  }
};
template <typename... T> struct Container<std::tuple<T...>> : std::true_type {
  static void go(std::tuple<T...> &x, TensorVisitor &visit) {
    std::apply([&](auto &...each) { (visit(each), ...); }, x);
  }
};

template <typename T> void visit_any(T &x, TensorVisitor &visit) {
  if constexpr (std::is_same_v<T, Tensor>)
    visit.tensor(x);
  else if constexpr (HasMember<T>)
    x.visit_tensors(visit);
  else if constexpr (HasFunction<T>)
    visit_tensors(x, visit);
  else if constexpr (Container<T>::value)
    Container<T>::go(x, visit);
  else if constexpr (IsModule<T>)
    visit.object(x.identity());
  else if constexpr (IsValue<T>)
    visit_bytes(x, visit);
  else if constexpr (std::is_same_v<T, std::string>) {
    visit_bytes(x.size(), visit);
    visit.value(x);
  } else
    static_assert(Unknown<T>::value, "weft::jit, weft::trace: an argument or result of this type "
                                     "needs a function visit_tensors(T &, weft::TensorVisitor &); "
                                     "a handle to shared tensors needs state() and identity(), "
                                     "as nn::Module has them");
}

// The tensors of a value, and all that is frozen with them.
class Flatten : public TensorVisitor {
public:
  void tensor(Tensor &x) override {
    tensors.push_back(x);
  }
  void value(std::string_view bytes) override {
    key.append(bytes);
  }
  void object(const std::shared_ptr<const void> &identity) override {
    key += identity ? 'd' : 'u';
    if (identity)
      objects.push_back(identity);
  }
  std::vector<Tensor> tensors;
  std::string key;
  std::vector<std::shared_ptr<const void>> objects; // in the order of their handles
};

// The same of arguments, among which an undefined tensor is frozen: it says that there is no mask,
// or no bias.
class FlattenArguments : public Flatten {
public:
  void tensor(Tensor &x) override {
    key += x.defined() ? 'd' : 'u';
    if (x.defined())
      Flatten::tensor(x);
  }
};

// Puts other tensors, which outlive it, in their place, in order; undefined ones where they end.
class Replace : public TensorVisitor {
public:
  explicit Replace(const std::vector<Tensor> &tensors) : tensors_(tensors) {}
  void tensor(Tensor &x) override {
    x = next_ < tensors_.size() ? tensors_[next_] : Tensor();
    ++next_;
  }
  void value(std::string_view) override {}

private:
  const std::vector<Tensor> &tensors_;
  size_t next_ = 0;
};

// The same of arguments that were flattened.
class ReplaceArguments : public Replace {
public:
  using Replace::Replace;
  void tensor(Tensor &x) override {
    if (x.defined())
      Replace::tensor(x);
  }
};

} // namespace tensor_tree

template <typename T> TensorVisitor &TensorVisitor::operator()(T &x) {
  tensor_tree::visit_any(x, *this);
  return *this;
}

} // namespace weft
