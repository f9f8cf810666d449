// What rows of the table of calls draw their operands and arguments with. Private to calls*.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/fuzz/calls.h"
#include "tests/support/OpRows.h"

namespace weft::fuzz {

// Results with more elements are not drawn: a program should spend its time on many calls.
inline constexpr int64_t kLargest = 200000;

inline bool any(const Tensor &) {
  return true;
}
inline bool floating(const Tensor &x) {
  return is_floating(x.dtype());
}
inline bool numeric(const Tensor &x) {
  return x.dtype() != boolean;
}
inline bool boolean_(const Tensor &x) {
  return x.dtype() == boolean;
}
inline bool not_scalar(const Tensor &x) {
  return x.ndim() > 0;
}
inline bool matrix(const Tensor &x) {
  return x.ndim() >= 2;
}
template <typename... F> auto both(F... f) {
  return [=](const Tensor &x) {
    return (f(x) && ...);
  };
}

// Operands as the op table names them.
inline bool takes(std::string_view dtypes, DType dtype) {
  if (dtypes == "floating")
    return is_floating(dtype);
  if (dtypes == "integer")
    return is_integer(dtype);
  if (dtypes == "numeric")
    return dtype != boolean;
  if (dtypes == "bool")
    return dtype == boolean;
  if (dtypes == "logic")
    return !is_floating(dtype);
  if (dtypes == "index")
    return dtype == int32 || dtype == int64;
  return dtypes == "any";
}

inline std::optional<Shape> broadcast_shape(const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  int64_t size = 1;
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    size *= result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  if (size > kLargest)
    return std::nullopt;
  return result;
}
inline auto broadcasts_with(const Shape &shape) {
  return [shape](const Tensor &x) {
    return broadcast_shape(shape, x.shape()).has_value();
  };
}
// Whether a value of x's shape can be written into one of `shape`.
inline auto fits_into(const Shape &shape) {
  return [shape](const Tensor &x) {
    return broadcast_shape(shape, x.shape()) == shape;
  };
}

inline Step step(std::vector<int> args, std::vector<std::vector<int64_t>> numbers = {}) {
  return {"", std::move(args), std::move(numbers)};
}
using Drawn = std::optional<Step>;

inline double scalar_of(const Step &s, size_t group) {
  return static_cast<double>(s.numbers[group][0]) / kScalarUnit;
}
inline int64_t a_scalar(Draw &d) {
  return d.random.chance(0.2) ? kScalarUnit * d.random.between(-2, 2)
                              : d.random.between(-3000, 3000);
}

// The value, brought into [low, high] by steps of its own, mostly: else functions with poles leave
// nothing but NaNs.
inline int tame(Draw &d, int place, double low, double high) {
  if (place < 0 || !is_floating(d[place].dtype()) || d.random.chance(0.15))
    return place;
  if (low > 0) {
    int squashed = d.add({"sigmoid", {place}});
    int scaled = d.add({"mul scalar",
                        {squashed},
                        {{static_cast<int64_t>(std::min(high - low, 8.) * kScalarUnit)}}});
    return d.add(
        {"add scalar", {scaled}, {{static_cast<int64_t>(std::max(low, 0.01) * kScalarUnit)}}});
  }
  return d.random.chance(0.4) ? d.add({"tanh", {place}}) : place;
}

// Arguments that keep sums and products from growing without end are drawn for them as for any
// other.
inline Drawn draw_unary(Draw &d, const ir::OpRow &row) {
  std::string_view dtypes =
      std::string_view(row.operands).substr(0, std::string_view(row.operands).find(' '));
  int x = d.value([&](const Tensor &t) { return takes(dtypes, t.dtype()); });
  if (x < 0)
    return {};
  return step({tame(d, x, row.domains[0].lowest, row.domains[0].highest)});
}

inline Drawn draw_binary(Draw &d, const ir::OpRow &row) {
  std::string_view dtypes =
      std::string_view(row.operands).substr(0, std::string_view(row.operands).find(' '));
  auto fits = [&](const Tensor &t) {
    return takes(dtypes, t.dtype());
  };
  int x = d.value(fits);
  if (x < 0)
    return {};
  int y = d.value(both(fits, broadcasts_with(d[x].shape())));
  if (y < 0)
    return {};
  return step({tame(d, x, row.domains[0].lowest, row.domains[0].highest),
               tame(d, y, row.domains.back().lowest, row.domains.back().highest)});
}

inline Drawn draw_with_scalar(Draw &d) {
  int x = d.value(numeric);
  if (x < 0)
    return {};
  return step({x}, {{a_scalar(d)}});
}

// Two values of shapes that broadcast, of any dtypes.
inline Drawn draw_pair(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(fits);
  if (x < 0)
    return {};
  int y = d.value(both(fits, broadcasts_with(d[x].shape())));
  if (y < 0)
    return {};
  return step({x, y});
}

inline std::vector<int64_t> some_dims(Draw &d, int64_t rank) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i)
    if (d.random.chance(0.5))
      dims.push_back(d.random.chance(0.3) ? i - rank : i);
  return dims;
}

inline Drawn draw_reduction(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(fits);
  if (x < 0)
    return {};
  return step({x}, {some_dims(d, d[x].ndim()), {d.random.below(2)}});
}

// A reduction that has no value where nothing is reduced.
inline Drawn draw_extremum(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value([&](const Tensor &t) { return fits(t) && t.size() > 0; });
  if (x < 0)
    return {};
  return step({x}, {some_dims(d, d[x].ndim()), {d.random.below(2)}});
}

inline Drawn draw_with_dim(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(both(fits, not_scalar));
  if (x < 0)
    return {};
  return step({x}, {{d.random.between(-d[x].ndim(), d[x].ndim() - 1)}});
}

// The factors of n as a shape, in some order, with ones in between.
inline std::vector<int64_t> shape_of_size(Draw &d, int64_t n) {
  std::vector<int64_t> shape;
  if (n == 0) {
    shape = {d.random.between(0, 3), 0};
    if (d.random.chance(0.5))
      std::swap(shape[0], shape[1]);
    return shape;
  }
  for (int64_t p = 2; p * p <= n; ++p)
    while (n % p == 0)
      shape.push_back(p), n /= p;
  if (n > 1)
    shape.push_back(n);
  if (d.random.chance(0.3))
    shape.push_back(1);
  for (size_t i = shape.size(); i > 1; --i)
    std::swap(shape[i - 1], shape[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  // Factors run together until few dims are left.
  while (shape.size() > 4 || (shape.size() > 1 && d.random.chance(0.4))) {
    size_t i = static_cast<size_t>(d.random.below(static_cast<int64_t>(shape.size()) - 1));
    shape[i] *= shape[i + 1];
    shape.erase(shape.begin() + static_cast<int64_t>(i) + 1);
  }
  return shape;
}

inline std::vector<int64_t> a_permutation(Draw &d, int64_t rank) {
  std::vector<int64_t> p(static_cast<size_t>(rank));
  std::iota(p.begin(), p.end(), 0);
  for (size_t i = p.size(); i > 1; --i)
    std::swap(p[i - 1], p[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  return p;
}

inline Drawn draw_slice(Draw &d) {
  int x = d.value(not_scalar);
  if (x < 0)
    return {};
  int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
  int64_t a = d.random.between(-n - 1, n), b = d.random.between(-n - 1, n),
          stride = d.random.chance(0.5) ? 1 : d.random.between(-3, 3);
  if (stride == 0)
    stride = 2;
  // Mostly something is left.
  if (d.random.chance(0.85) && n > 0) {
    a = d.random.below(n);
    b = stride > 0 ? d.random.between(a + 1, n) : d.random.between(-n - 1, a - n - 1);
  }
  return step({x}, {{dim}, {a}, {b}, {stride}});
}

inline Drawn draw_write(Draw &d) {
  int x =
      d.value([](const Tensor &t) { return numeric(t) && !(t.requires_grad() && t.is_leaf()); });
  if (x < 0)
    return {};
  DType dtype = d[x].dtype();
  int y = d.value(both(numeric, fits_into(d[x].shape()), [&](const Tensor &t) {
    return is_floating(dtype) || !is_floating(t.dtype());
  }));
  if (y < 0)
    return {};
  return step({x, y});
}

// --- Calls with a form of their own ---

inline Tensor first_gradient(std::vector<Tensor> gradients, const Tensor &x) {
  return gradients[0].defined() ? gradients[0] : zeros_like(x);
}
inline bool has_history(const Tensor &x) {
  return x.requires_grad() && is_floating(x.dtype());
}

// The rows, by file.
using Calls = std::map<std::string, Call>;
void add_elementwise(Calls &all);
void add_reductions(Calls &all);
void add_contractions(Calls &all);
void add_movement(Calls &all);
void add_indexing(Calls &all);
void add_creation(Calls &all);
void add_effects(Calls &all);
void add_images(Calls &all);

} // namespace weft::fuzz
