#include "tests/fuzz/calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dialects/weft/ir/OpTable.h"

namespace weft::fuzz {
namespace {

// Results with more elements are not drawn: a program should spend its time on many calls.
constexpr int64_t kLargest = 200000;

bool any(const Tensor &) { return true; }
bool floating(const Tensor &x) { return is_floating(x.dtype()); }
bool numeric(const Tensor &x) { return x.dtype() != boolean; }
bool boolean_(const Tensor &x) { return x.dtype() == boolean; }
bool not_scalar(const Tensor &x) { return x.ndim() > 0; }
bool matrix(const Tensor &x) { return x.ndim() >= 2; }
template <typename... F> auto both(F... f) {
  return [=](const Tensor &x) { return (f(x) && ...); };
}

// Operands as the op table names them.
bool takes(std::string_view dtypes, DType dtype) {
  if (dtypes == "floating") return is_floating(dtype);
  if (dtypes == "integer") return is_integer(dtype);
  if (dtypes == "numeric") return dtype != boolean;
  if (dtypes == "bool") return dtype == boolean;
  if (dtypes == "logic") return !is_floating(dtype);
  if (dtypes == "index") return dtype == int32 || dtype == int64;
  return dtypes == "any";
}

const ir::OpRow &row_of(std::string_view mnemonic) {
  for (const ir::OpRow &row : ir::opTable())
    if (mnemonic == row.mnemonic) return row;
  throw std::logic_error("no op " + std::string(mnemonic));
}

std::optional<Shape> broadcast_shape(const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  int64_t size = 1;
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    size *= result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  if (size > kLargest) return std::nullopt;
  return result;
}
auto broadcasts_with(const Shape &shape) {
  return [shape](const Tensor &x) { return broadcast_shape(shape, x.shape()).has_value(); };
}
// Whether a value of x's shape can be written into one of `shape`.
auto fits_into(const Shape &shape) {
  return [shape](const Tensor &x) { return broadcast_shape(shape, x.shape()) == shape; };
}

Step step(std::vector<int> args, std::vector<std::vector<int64_t>> numbers = {}) { return {"", std::move(args), std::move(numbers)}; }
using Drawn = std::optional<Step>;

double scalar_of(const Step &s, size_t group) { return static_cast<double>(s.numbers[group][0]) / kScalarUnit; }
int64_t a_scalar(Draw &d) { return d.random.chance(0.2) ? kScalarUnit * d.random.between(-2, 2) : d.random.between(-3000, 3000); }

// The value, brought into [low, high] by steps of its own, mostly: else functions with poles leave nothing but NaNs.
int tame(Draw &d, int place, double low, double high) {
  if (place < 0 || !is_floating(d[place].dtype()) || d.random.chance(0.15)) return place;
  if (low > 0) {
    int squashed = d.add({"sigmoid", {place}});
    int scaled = d.add({"mul scalar", {squashed}, {{static_cast<int64_t>(std::min(high - low, 8.) * kScalarUnit)}}});
    return d.add({"add scalar", {scaled}, {{static_cast<int64_t>(std::max(low, 0.01) * kScalarUnit)}}});
  }
  return d.random.chance(0.4) ? d.add({"tanh", {place}}) : place;
}

// Arguments that keep sums and products from growing without end are drawn for them as for any other.
Drawn draw_unary(Draw &d, const ir::OpRow &row) {
  std::string_view dtypes = std::string_view(row.operands).substr(0, std::string_view(row.operands).find(' '));
  int x = d.value([&](const Tensor &t) { return takes(dtypes, t.dtype()); });
  if (x < 0) return {};
  return step({tame(d, x, row.domains[0].lowest, row.domains[0].highest)});
}

Drawn draw_binary(Draw &d, const ir::OpRow &row) {
  std::string_view dtypes = std::string_view(row.operands).substr(0, std::string_view(row.operands).find(' '));
  auto fits = [&](const Tensor &t) { return takes(dtypes, t.dtype()); };
  int x = d.value(fits);
  if (x < 0) return {};
  int y = d.value(both(fits, broadcasts_with(d[x].shape())));
  if (y < 0) return {};
  return step(
      {tame(d, x, row.domains[0].lowest, row.domains[0].highest), tame(d, y, row.domains.back().lowest, row.domains.back().highest)});
}

Drawn draw_with_scalar(Draw &d) {
  int x = d.value(numeric);
  if (x < 0) return {};
  return step({x}, {{a_scalar(d)}});
}

// Two values of shapes that broadcast, of any dtypes.
Drawn draw_pair(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(fits);
  if (x < 0) return {};
  int y = d.value(both(fits, broadcasts_with(d[x].shape())));
  if (y < 0) return {};
  return step({x, y});
}

std::vector<int64_t> some_dims(Draw &d, int64_t rank) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i)
    if (d.random.chance(0.5)) dims.push_back(d.random.chance(0.3) ? i - rank : i);
  return dims;
}

Drawn draw_reduction(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(fits);
  if (x < 0) return {};
  return step({x}, {some_dims(d, d[x].ndim()), {d.random.below(2)}});
}

// A reduction that has no value where nothing is reduced.
Drawn draw_extremum(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value([&](const Tensor &t) { return fits(t) && t.size() > 0; });
  if (x < 0) return {};
  return step({x}, {some_dims(d, d[x].ndim()), {d.random.below(2)}});
}

Drawn draw_with_dim(Draw &d, bool (*fits)(const Tensor &)) {
  int x = d.value(both(fits, not_scalar));
  if (x < 0) return {};
  return step({x}, {{d.random.between(-d[x].ndim(), d[x].ndim() - 1)}});
}

// The factors of n as a shape, in some order, with ones in between.
std::vector<int64_t> shape_of_size(Draw &d, int64_t n) {
  std::vector<int64_t> shape;
  if (n == 0) {
    shape = {d.random.between(0, 3), 0};
    if (d.random.chance(0.5)) std::swap(shape[0], shape[1]);
    return shape;
  }
  for (int64_t p = 2; p * p <= n; ++p)
    while (n % p == 0) shape.push_back(p), n /= p;
  if (n > 1) shape.push_back(n);
  if (d.random.chance(0.3)) shape.push_back(1);
  for (size_t i = shape.size(); i > 1; --i) std::swap(shape[i - 1], shape[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  // Factors run together until few dims are left.
  while (shape.size() > 4 || (shape.size() > 1 && d.random.chance(0.4))) {
    size_t i = static_cast<size_t>(d.random.below(static_cast<int64_t>(shape.size()) - 1));
    shape[i] *= shape[i + 1];
    shape.erase(shape.begin() + static_cast<int64_t>(i) + 1);
  }
  return shape;
}

std::vector<int64_t> a_permutation(Draw &d, int64_t rank) {
  std::vector<int64_t> p(static_cast<size_t>(rank));
  std::iota(p.begin(), p.end(), 0);
  for (size_t i = p.size(); i > 1; --i) std::swap(p[i - 1], p[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  return p;
}

Drawn draw_slice(Draw &d) {
  int x = d.value(not_scalar);
  if (x < 0) return {};
  int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
  int64_t a = d.random.between(-n - 1, n), b = d.random.between(-n - 1, n), stride = d.random.chance(0.5) ? 1 : d.random.between(-3, 3);
  if (stride == 0) stride = 2;
  // Mostly something is left.
  if (d.random.chance(0.85) && n > 0) {
    a = d.random.below(n);
    b = stride > 0 ? d.random.between(a + 1, n) : d.random.between(-n - 1, a - n - 1);
  }
  return step({x}, {{dim}, {a}, {b}, {stride}});
}

Drawn draw_write(Draw &d) {
  int x = d.value([](const Tensor &t) { return numeric(t) && !(t.requires_grad() && t.is_leaf()); });
  if (x < 0) return {};
  DType dtype = d[x].dtype();
  int y = d.value(both(numeric, fits_into(d[x].shape()), [&](const Tensor &t) { return is_floating(dtype) || !is_floating(t.dtype()); }));
  if (y < 0) return {};
  return step({x, y});
}

// --- Calls with a form of their own ---

Tensor first_gradient(std::vector<Tensor> gradients, const Tensor &x) { return gradients[0].defined() ? gradients[0] : zeros_like(x); }
bool has_history(const Tensor &x) { return x.requires_grad() && is_floating(x.dtype()); }

void add_elementwise(std::map<std::string, Call> &all) {
#define WEFT_UNARY(function, record, doc)                                                                                                  \
  all[#function] = {[](Draw &d) { return draw_unary(d, row_of(#function)); },                                                              \
                    [](const Tensors &a, const Step &) { return weft::function(a[0]); }, "weft::" #function "($0)"};
#define WEFT_BINARY(function, record, doc)                                                                                                 \
  all[#function] = {[](Draw &d) { return draw_binary(d, row_of(#function)); },                                                             \
                    [](const Tensors &a, const Step &) { return weft::function(a[0], a[1]); }, "weft::" #function "($0, $1)"};             \
  all[#function " scalar"] = {draw_with_scalar, [](const Tensors &a, const Step &s) { return weft::function(a[0], scalar_of(s, 0)); },     \
                              "weft::" #function "($0, %0)", 0.5};                                                                         \
  all["scalar " #function] = {draw_with_scalar, [](const Tensors &a, const Step &s) { return weft::function(scalar_of(s, 0), a[0]); },     \
                              "weft::" #function "(%0, $0)", 0.25};
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  all["div"] = {[](Draw &d) { return draw_binary(d, row_of("div")); }, [](const Tensors &a, const Step &) { return a[0] / a[1]; },
                "$0 / $1"};
  all["square"] = {[](Draw &d) -> Drawn {
                     int x = d.value(numeric);
                     return x < 0 ? Drawn() : step({tame(d, x, -4, 4)});
                   },
                   [](const Tensors &a, const Step &) { return square(a[0]); }, "weft::square($0)"};
  for (bool approximate : {false, true})
    all[approximate ? "gelu tanh" : "gelu"] = {[](Draw &d) { return draw_unary(d, row_of("gelu")); },
                                               [=](const Tensors &a, const Step &) { return gelu(a[0], approximate ? "tanh" : "none"); },
                                               approximate ? "weft::gelu($0, \"tanh\")" : "weft::gelu($0)"};
  all["logical_not"] = {[](Draw &d) -> Drawn {
                          int x = d.value(any);
                          return x < 0 ? Drawn() : step({x});
                        },
                        [](const Tensors &a, const Step &) { return logical_not(a[0]); }, "weft::logical_not($0)", 0.3};
  using Function = Tensor (*)(TensorArg, TensorArg, Location);
  struct Pair {
    const char *name;
    Function function;
    bool (*fits)(const Tensor &);
  };
  auto bits = [](const Tensor &x) { return !is_floating(x.dtype()); };
  for (Pair p : {Pair{"logical_and", logical_and, any},
                 {"logical_or", logical_or, any},
                 {"bitwise_and", bitwise_and, bits},
                 {"bitwise_or", bitwise_or, bits},
                 {"eq", eq, any},
                 {"ne", ne, any},
                 {"lt", lt, any},
                 {"le", le, any},
                 {"gt", gt, any},
                 {"ge", ge, any}})
    all[p.name] = {[=](Draw &d) { return draw_pair(d, p.fits); },
                   [=](const Tensors &a, const Step &) { return p.function(a[0], a[1], Location::current()); },
                   std::string("weft::") + p.name + "($0, $1)", 0.3};
  all["where"] = {[](Draw &d) -> Drawn {
                    int c = d.value(boolean_);
                    if (c < 0) return {};
                    int x = d.value(broadcasts_with(d[c].shape()));
                    if (x < 0) return {};
                    Shape shape = *broadcast_shape(d[c].shape(), d[x].shape());
                    int y = d.value(broadcasts_with(shape));
                    return y < 0 ? Drawn() : step({c, x, y});
                  },
                  [](const Tensors &a, const Step &) { return where(a[0], a[1], a[2]); }, "weft::where($0, $1, $2)", 2};
  all["masked_fill"] = {[](Draw &d) -> Drawn {
                          int x = d.value(numeric);
                          if (x < 0) return {};
                          int m = d.value(both(boolean_, fits_into(d[x].shape())));
                          return m < 0 ? Drawn() : step({x, m}, {{a_scalar(d)}});
                        },
                        [](const Tensors &a, const Step &s) { return masked_fill(a[0], a[1], scalar_of(s, 0)); },
                        "weft::masked_fill($0, $1, %0)"};
  all["clamp"] = {[](Draw &d) -> Drawn {
                    int x = d.value(numeric);
                    return x < 0 ? Drawn() : step({x}, {{d.random.between(-2000, 0)}, {d.random.between(0, 2000)}});
                  },
                  [](const Tensors &a, const Step &s) { return clamp(a[0], scalar_of(s, 0), scalar_of(s, 1)); }, "weft::clamp($0, %0, %1)",
                  0.5};
  all["to"] = {[](Draw &d) -> Drawn {
                 int x = d.value(any);
                 static const std::vector<DType> to = {float32, float32, float64, int32, int64, boolean};
                 return x < 0 ? Drawn() : step({x}, {{static_cast<int64_t>(d.random.of(to))}});
               },
               [](const Tensors &a, const Step &s) { return a[0].to(static_cast<DType>(s.numbers[0][0])); }, "$0.to(@0)"};
}

void add_reductions(std::map<std::string, Call> &all) {
  using Function = Tensor (*)(const Tensor &, Dims, bool, Location);
  auto add = [&](const char *name, Function function, std::function<Drawn(Draw &)> draw) {
    all[name] = {
        std::move(draw),
        [=](const Tensors &a, const Step &s) { return function(a[0], Dims(s.numbers[0]), s.numbers[1][0] != 0, Location::current()); },
        std::string("weft::") + name + "($0, {#0}, #1)", 1.5};
  };
  add("sum", sum, [](Draw &d) { return draw_reduction(d, any); });
  add("mean", mean, [](Draw &d) { return draw_reduction(d, floating); });
  add("max", max, [](Draw &d) { return draw_extremum(d, numeric); });
  add("min", min, [](Draw &d) { return draw_extremum(d, numeric); });
  add("norm", norm, [](Draw &d) { return draw_reduction(d, floating); });
  all["var"] = {[](Draw &d) { return draw_extremum(d, floating); },
                [](const Tensors &a, const Step &s) { return var(a[0], Dims(s.numbers[0]), 0, s.numbers[1][0] != 0); },
                "weft::var($0, {#0}, 0, #1)"};
  // It computes while it is recorded.
  all["argmax"] = {[](Draw &d) -> Drawn {
                     int x = d.value([](const Tensor &t) { return numeric(t) && t.ndim() > 0 && t.size() > 0; });
                     return x < 0 ? Drawn() : step({x}, {{d.random.below(d[x].ndim())}, {d.random.below(2)}});
                   },
                   [](const Tensors &a, const Step &s) { return argmax(a[0], s.numbers[0][0], s.numbers[1][0] != 0); },
                   "weft::argmax($0, #0, #1)",
                   0.1,
                   false,
                   [](const Tensors &a, const Step &s) { return sum(a[0].detach(), s.numbers[0][0], s.numbers[1][0] != 0).to(int64); }};
  for (const char *name : {"softmax", "log_softmax"}) {
    bool log = name[0] == 'l';
    all[name] = {[](Draw &d) { return draw_with_dim(d, floating); },
                 [=](const Tensors &a, const Step &s) { return log ? log_softmax(a[0], s.numbers[0][0]) : softmax(a[0], s.numbers[0][0]); },
                 std::string("weft::") + name + "($0, #0)"};
  }
}

void add_contractions(std::map<std::string, Call> &all) {
  all["matmul"] = {[](Draw &d) -> Drawn {
                     int x = d.value(both(numeric, not_scalar));
                     if (x < 0) return {};
                     Shape a = d[x].shape();
                     if (d[x].size() > 20000) return {};
                     // Mostly with a new right-hand side; else with a value that happens to fit.
                     DType dtype = d[x].dtype();
                     int y = d.random.chance(0.4) ? d.value([&](const Tensor &t) {
                       if (t.dtype() != dtype || t.ndim() < 1 || t.size() > 20000) return false;
                       Shape b = t.shape();
                       if (b[b.size() == 1 ? 0 : b.size() - 2] != a.back()) return false;
                       Shape left(a.begin(), a.end() - std::min<int64_t>(2, static_cast<int64_t>(a.size())));
                       Shape right(b.begin(), b.end() - std::min<int64_t>(2, static_cast<int64_t>(b.size())));
                       return broadcast_shape(left, right).has_value();
                     })
                                                  : -1;
                     if (y < 0) y = d.numbers(dtype, {a.back(), d.random.of(std::vector<int64_t>{1, 2, 3, 5, 8, 17})}, -1, 1);
                     return step({x, y});
                   },
                   [](const Tensors &a, const Step &) { return matmul(a[0], a[1]); }, "weft::matmul($0, $1)", 2};
  all["linear"] = {[](Draw &d) -> Drawn {
                     int x = d.value(both(floating, not_scalar));
                     if (x < 0 || d[x].size() > 20000) return {};
                     int64_t out = d.random.of(std::vector<int64_t>{1, 3, 8});
                     int w = d.numbers(d[x].dtype(), {out, d[x].shape().back()}, -1, 1);
                     if (d.random.chance(0.3)) return step({x, w});
                     return step({x, w, d.numbers(d[x].dtype(), {out}, -1, 1)});
                   },
                   [](const Tensors &a, const Step &) { return linear(a[0], a[1], a.size() > 2 ? a[2] : Tensor()); },
                   "weft::linear($0, $1, $2)"};
  all["layer_norm"] = {[](Draw &d) -> Drawn {
                         int x = d.value(both(floating, not_scalar));
                         if (x < 0) return {};
                         Shape shape = d[x].shape();
                         Shape inner(shape.end() - d.random.between(1, std::min<int64_t>(2, d[x].ndim())), shape.end());
                         std::vector<int> args = {x};
                         if (d.random.chance(0.7)) args.push_back(d.numbers(d[x].dtype(), inner, 0.5, 2));
                         if (args.size() > 1 && d.random.chance(0.7)) args.push_back(d.numbers(d[x].dtype(), inner, -1, 1));
                         return step(args, {inner});
                       },
                       [](const Tensors &a, const Step &s) {
                         return layer_norm(a[0], s.numbers[0], a.size() > 1 ? a[1] : Tensor(), a.size() > 2 ? a[2] : Tensor());
                       },
                       "weft::layer_norm($0, {#0}, $1, $2)"};
  all["attention"] = {[](Draw &d) -> Drawn {
                        int x = d.value([](const Tensor &t) { return floating(t) && matrix(t) && t.size() < 5000; });
                        if (x < 0) return {};
                        Shape key = d[x].shape(), value = key;
                        key[key.size() - 2] = value[value.size() - 2] = d.random.of(std::vector<int64_t>{1, 3, 8});
                        value.back() = d.random.of(std::vector<int64_t>{2, 5});
                        DType dtype = d[x].dtype();
                        std::vector<int> args = {x, d.numbers(dtype, key, -1, 1), d.numbers(dtype, value, -1, 1)};
                        int64_t mask = d.random.below(3);
                        Shape scores = {d[x].shape()[key.size() - 2], key[key.size() - 2]};
                        if (mask == 1) args.push_back(d.numbers(boolean, scores, 0, 1));
                        if (mask == 2) args.push_back(d.numbers(dtype, {scores[1]}, -1, 1));
                        return step(args, {{d.random.below(2)}});
                      },
                      [](const Tensors &a, const Step &s) {
                        return attention(a[0], a[1], a[2], a.size() > 3 ? a[3] : Tensor(), {.causal = s.numbers[0][0] != 0});
                      },
                      "weft::attention($0, $1, $2, $3, {.causal = bool(#0)})", 0.7};
  all["cross_entropy"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return floating(t) && t.ndim() > 0 && t.shape().back() > 0; });
        if (x < 0) return {};
        Shape rows = d[x].shape();
        int64_t classes = rows.back();
        rows.pop_back();
        return step({x, d.indices(rows, classes)}, {{d.random.below(3)}, {d.random.chance(0.3) ? 0 : -100}});
      },
      [](const Tensors &a, const Step &s) { return cross_entropy(a[0], a[1], static_cast<Reduction>(s.numbers[0][0]), s.numbers[1][0]); },
      "weft::cross_entropy($0, $1, weft::Reduction(#0), #1)", 0.7};
  all["mse_loss"] = {[](Draw &d) -> Drawn {
                       int x = d.value(floating);
                       if (x < 0) return {};
                       Shape shape = d[x].shape();
                       DType dtype = d[x].dtype();
                       int y = d.value([&](const Tensor &t) { return t.dtype() == dtype && t.shape() == shape; });
                       return step({x, y}, {{d.random.below(3)}});
                     },
                     [](const Tensors &a, const Step &s) { return mse_loss(a[0], a[1], static_cast<Reduction>(s.numbers[0][0])); },
                     "weft::mse_loss($0, $1, weft::Reduction(#0))", 0.5};
}

void add_movement(std::map<std::string, Call> &all) {
  all["reshape"] = {[](Draw &d) -> Drawn {
                      int x = d.value(any);
                      return x < 0 ? Drawn() : step({x}, {shape_of_size(d, d[x].size())});
                    },
                    [](const Tensors &a, const Step &s) { return a[0].reshape(s.numbers[0]); }, "$0.reshape({#0})"};
  all["permute"] = {[](Draw &d) -> Drawn {
                      int x = d.value(not_scalar);
                      return x < 0 ? Drawn() : step({x}, {a_permutation(d, d[x].ndim())});
                    },
                    [](const Tensors &a, const Step &s) { return a[0].permute(s.numbers[0]); }, "$0.permute({#0})", 1.5};
  all["flatten"] = {[](Draw &d) -> Drawn {
                      int x = d.value(not_scalar);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return a[0].flatten(); }, "$0.flatten()", 0.3};
  all["unsqueeze"] = {[](Draw &d) -> Drawn {
                        int x = d.value([](const Tensor &t) { return t.ndim() < 4; });
                        return x < 0 ? Drawn() : step({x}, {{d.random.between(0, d[x].ndim())}});
                      },
                      [](const Tensors &a, const Step &s) { return a[0].unsqueeze(s.numbers[0][0]); }, "$0.unsqueeze(#0)", 0.7};
  all["squeeze"] = {[](Draw &d) -> Drawn {
                      int x = d.value(any);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return a[0].squeeze(); }, "$0.squeeze()", 0.3};
  all["expand"] = {[](Draw &d) -> Drawn {
                     int x = d.value([](const Tensor &t) { return t.ndim() < 4 && t.size() < 2000; });
                     if (x < 0) return {};
                     Shape shape = d[x].shape();
                     for (int64_t &n : shape)
                       if (n == 1) n = d.random.of(std::vector<int64_t>{1, 2, 3, 5});
                     if (d.random.chance(0.6)) shape.insert(shape.begin(), d.random.of(std::vector<int64_t>{0, 1, 2, 3}));
                     return step({x}, {shape});
                   },
                   [](const Tensors &a, const Step &s) { return a[0].expand(s.numbers[0]); }, "$0.expand({#0})"};
  all["slice"] = {
      draw_slice,
      [](const Tensors &a, const Step &s) { return a[0].slice(s.numbers[0][0], s.numbers[1][0], s.numbers[2][0], s.numbers[3][0]); },
      "$0.slice(#0, #1, #2, #3)", 2};
  all["select"] = {[](Draw &d) -> Drawn {
                     int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() > 0; });
                     if (x < 0) return {};
                     int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
                     return step({x}, {{dim}, {d.random.between(-n, n - 1)}});
                   },
                   [](const Tensors &a, const Step &s) { return a[0].select(s.numbers[0][0], s.numbers[1][0]); }, "$0.select(#0, #1)"};
  all["split"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() > 0; });
        if (x < 0) return {};
        int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
        int64_t size = d.random.between(1, n);
        return step({x}, {{size}, {dim}, {d.random.below((n + size - 1) / size)}});
      },
      [](const Tensors &a, const Step &s) { return split(a[0], s.numbers[0][0], s.numbers[1][0])[static_cast<size_t>(s.numbers[2][0])]; },
      "weft::split($0, #0, #1)[#2]", 0.5};
  auto like = [](Draw &d, int x) {
    Shape shape = d[x].shape();
    DType dtype = d[x].dtype();
    return d.value([=](const Tensor &t) { return t.shape() == shape && t.dtype() == dtype; });
  };
  all["cat"] = {[like](Draw &d) -> Drawn {
                  int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() < 20000; });
                  if (x < 0) return {};
                  return step({x, like(d, x), like(d, x)}, {{d.random.between(-d[x].ndim(), d[x].ndim() - 1)}});
                },
                [](const Tensors &a, const Step &s) { return cat(a, s.numbers[0][0]); }, "weft::cat({$0, $1, $2}, #0)"};
  all["stack"] = {[like](Draw &d) -> Drawn {
                    int x = d.value([](const Tensor &t) { return t.ndim() < 4 && t.size() < 20000; });
                    if (x < 0) return {};
                    return step({x, like(d, x)}, {{d.random.between(0, d[x].ndim())}});
                  },
                  [](const Tensors &a, const Step &s) { return stack(a, s.numbers[0][0]); }, "weft::stack({$0, $1}, #0)", 0.5};
  for (bool upper : {false, true})
    all[upper ? "triu" : "tril"] = {
        [](Draw &d) -> Drawn {
          int x = d.value(matrix);
          return x < 0 ? Drawn() : step({x}, {{d.random.between(-2, 2)}});
        },
        [=](const Tensors &a, const Step &s) { return upper ? triu(a[0], s.numbers[0][0]) : tril(a[0], s.numbers[0][0]); },
        upper ? "weft::triu($0, #0)" : "weft::tril($0, #0)", 0.4};
}

void add_indexing(std::map<std::string, Call> &all) {
  auto with_rows = [](const Tensor &t) { return t.ndim() > 0 && t.size() > 0; };
  all["index_select"] = {[=](Draw &d) -> Drawn {
                           int x = d.value(with_rows);
                           if (x < 0) return {};
                           int64_t dim = d.random.below(d[x].ndim());
                           static const std::vector<Shape> shapes = {{}, {0}, {1}, {3}, {7}, {2, 3}};
                           return step({x, d.indices(d.random.of(shapes), d[x].shape()[static_cast<size_t>(dim)])}, {{dim}});
                         },
                         [](const Tensors &a, const Step &s) { return index_select(a[0], s.numbers[0][0], a[1]); },
                         "weft::index_select($0, #0, $1)"};
  all["embedding"] = {[=](Draw &d) -> Drawn {
                        int x = d.value([](const Tensor &t) { return floating(t) && t.ndim() == 2 && t.size() > 0; });
                        if (x < 0) return {};
                        static const std::vector<Shape> shapes = {{}, {1}, {5}, {2, 3}};
                        return step({d.indices(d.random.of(shapes), d[x].shape()[0]), x});
                      },
                      [](const Tensors &a, const Step &) { return embedding(a[0], a[1]); }, "weft::embedding($0, $1)", 0.5};
  all["gather"] = {[=](Draw &d) -> Drawn {
                     int x = d.value(with_rows);
                     if (x < 0) return {};
                     int64_t dim = d.random.below(d[x].ndim());
                     Shape shape = d[x].shape();
                     int64_t n = std::exchange(shape[static_cast<size_t>(dim)], d.random.of(std::vector<int64_t>{0, 1, 3, 8}));
                     return step({x, d.indices(shape, n)}, {{dim}});
                   },
                   [](const Tensors &a, const Step &s) { return gather(a[0], s.numbers[0][0], a[1]); }, "weft::gather($0, #0, $1)"};
  all["scatter_add"] = {[=](Draw &d) -> Drawn {
                          int x = d.value(both(numeric, with_rows));
                          if (x < 0) return {};
                          int64_t dim = d.random.below(d[x].ndim());
                          Shape shape = d[x].shape();
                          int64_t n = std::exchange(shape[static_cast<size_t>(dim)], d.random.of(std::vector<int64_t>{0, 1, 3, 8}));
                          return step({x, d.indices(shape, n), d.numbers(d[x].dtype(), shape, -2, 2)}, {{dim}});
                        },
                        [](const Tensors &a, const Step &s) { return scatter_add(a[0], s.numbers[0][0], a[1], a[2]); },
                        "weft::scatter_add($0, #0, $1, $2)"};
  all["one_hot"] = {[=](Draw &d) -> Drawn {
                      static const std::vector<Shape> shapes = {{}, {1}, {5}, {2, 3}};
                      return step({d.indices(d.random.of(shapes), 4)}, {{4}});
                    },
                    [](const Tensors &a, const Step &s) { return one_hot(a[0], s.numbers[0][0]); }, "weft::one_hot($0, #0)", 0.3};
}

void add_creation(std::map<std::string, Call> &all) {
  static const std::vector<Shape> shapes = {{}, {1}, {3}, {17}, {2, 3}, {0, 2}, {5, 1, 2}};
  all["arange"] = {[](Draw &d) -> Drawn { return step({}, {{d.random.of(std::vector<int64_t>{0, 1, 5, 17})}}); },
                   [](const Tensors &, const Step &s) { return arange(s.numbers[0][0]); }, "weft::arange(#0)", 0.3};
  all["full"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes), {a_scalar(d)}}); },
                 [](const Tensors &, const Step &s) { return full(s.numbers[0], scalar_of(s, 1)); }, "weft::full({#0}, %1)", 0.3};
  all["rand"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                 [](const Tensors &, const Step &s) { return rand(s.numbers[0]); }, "weft::rand({#0})", 0.3};
  all["randn"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                  [](const Tensors &, const Step &s) { return randn(s.numbers[0]); }, "weft::randn({#0})", 0.3};
  all["randint"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                    [](const Tensors &, const Step &s) { return randint(-3, 9, s.numbers[0]); }, "weft::randint(-3, 9, {#0})", 0.2};
  all["dropout"] = {[](Draw &d) -> Drawn {
                      int x = d.value(floating);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return dropout(a[0], 0.3); }, "weft::dropout($0, 0.3)", 0.6};
}

// Writes, evaluation and derivatives.
void add_effects(std::map<std::string, Call> &all) {
  using Member = Tensor &(Tensor::*)(TensorArg, Location);
  struct Write {
    const char *name;
    Member member;
  };
  for (Write w : {Write{"add_", &Tensor::add_}, {"sub_", &Tensor::sub_}, {"mul_", &Tensor::mul_}, {"copy_", &Tensor::copy_}})
    all[w.name] = {draw_write,
                   [=](const Tensors &a, const Step &) {
                     Tensor x = a[0];
                     (x.*w.member)(a[1], Location::current());
                     return x;
                   },
                   std::string("$0.") + w.name + "($1)", 1.2, true};
  all["fill_"] = {[](Draw &d) -> Drawn {
                    int x = d.value([](const Tensor &t) { return numeric(t) && !(t.requires_grad() && t.is_leaf()); });
                    return x < 0 ? Drawn() : step({x}, {{kScalarUnit * d.random.between(-2, 2)}});
                  },
                  [](const Tensors &a, const Step &s) {
                    Tensor x = a[0];
                    x.fill_(scalar_of(s, 0));
                    return x;
                  },
                  "$0.fill_(%0)", 0.6, true};
  all["detach"] = {[](Draw &d) -> Drawn {
                     int x = d.value(any);
                     return x < 0 ? Drawn() : step({x});
                   },
                   [](const Tensors &a, const Step &) { return a[0].detach(); }, "$0.detach()", 0.2};
  all["clone"] = {[](Draw &d) -> Drawn {
                    int x = d.value(any);
                    return x < 0 ? Drawn() : step({x});
                  },
                  [](const Tensors &a, const Step &) { return a[0].clone(); }, "$0.clone()", 0.5};
  all["eval"] = {[](Draw &d) -> Drawn {
                   int x = d.value(any);
                   return x < 0 ? Drawn() : step({x});
                 },
                 [](const Tensors &a, const Step &) { return a[0].eval(); },
                 "$0.eval()",
                 0.5,
                 true,
                 [](const Tensors &a, const Step &) { return a[0]; }};
  all["grad"] = {[](Draw &d) -> Drawn {
                   int y = d.value(has_history);
                   int x = d.value(has_history);
                   return y < 0 || x < 0 ? Drawn() : step({y, x}, {{d.random.below(2)}});
                 },
                 [](const Tensors &a, const Step &s) {
                   GradOptions options{.create_graph = s.numbers[0][0] != 0, .retain_graph = true, .allow_unused = true};
                   return first_gradient(grad({sum(a[0])}, {a[1]}, options), a[1]);
                 },
                 "gradient(weft::sum($0), $1, #0)", 2.5};
  all["backward"] = {[](Draw &d) -> Drawn {
                       int y = d.value(has_history);
                       int x = d.value([](const Tensor &t) { return has_history(t) && t.is_leaf(); });
                       return y < 0 || x < 0 ? Drawn() : step({y, x});
                     },
                     [](const Tensors &a, const Step &) {
                       sum(a[0]).backward({}, true);
                       return first_gradient({a[1].grad()}, a[1]);
                     },
                     "backward(weft::sum($0), $1)", 0.7};
}

} // namespace

int Draw::value(const std::function<bool(const Tensor &)> &fits) {
  std::vector<int> found;
  for (size_t i = 0; i < values_->size(); ++i)
    if (fits((*values_)[i])) found.push_back(static_cast<int>(i));
  if (found.empty()) return -1;
  // Of the last four in most cases, so that chains grow.
  int64_t n = static_cast<int64_t>(found.size()), last = std::min<int64_t>(n, 4);
  return found[static_cast<size_t>(random.chance(0.7) ? n - 1 - random.below(last) : random.below(n))];
}

int Draw::numbers(DType dtype, const Shape &shape, double low, double high) {
  auto thousandths = [](double x) { return static_cast<int64_t>(std::lround(x * kScalarUnit)); };
  int64_t special = random.chance(0.03), gradient = is_floating(dtype) && random.chance(0.6);
  return add(
      {"input", {}, {{static_cast<int64_t>(dtype), random.below(1000), thousandths(low), thousandths(high), special, gradient}, shape}});
}

int Draw::indices(const Shape &shape, int64_t limit) {
  return add({"indices", {}, {{limit, random.below(1000), static_cast<int64_t>(random.chance(0.5) ? int32 : int64)}, shape}});
}

Tensor make_input(const Step &s) {
  const std::vector<int64_t> &n = s.numbers[0];
  Shape shape = s.numbers[1];
  int64_t size = 1;
  for (int64_t extent : shape) size *= extent;
  if (s.call == "indices") {
    Random random(static_cast<uint64_t>(n[1]));
    std::vector<int64_t> values;
    for (int64_t i = 0; i < size; ++i) values.push_back(random.below(n[0]) - (random.chance(0.2) ? n[0] : 0));
    // PyTorch's one_hot and losses take no negative ones.
    for (int64_t &value : values) value = value < 0 ? value + n[0] : value;
    return n[2] == static_cast<int64_t>(int64) ? Tensor::from(values, shape)
                                               : Tensor::from(std::vector<int32_t>(values.begin(), values.end()), shape);
  }
  DType dtype = static_cast<DType>(n[0]);
  Random random(static_cast<uint64_t>(n[1]));
  double low = static_cast<double>(n[2]) / kScalarUnit, high = static_cast<double>(n[3]) / kScalarUnit;
  static const double kSpecial[] = {
      0., -0., std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::nan(""), 1e-40, -1e30, 1};
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    double x = low + (high - low) * static_cast<double>(random.below(1 << 20)) / (1 << 20);
    if (n[4] && is_floating(dtype) && random.chance(0.2)) x = kSpecial[random.below(8)];
    values.push_back(is_floating(dtype) || dtype == boolean ? x : std::floor(x));
  }
  Tensor tensor;
  if (dtype == float32) tensor = Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
  else if (dtype == float64) tensor = Tensor::from(values, shape);
  else if (dtype == int32) tensor = Tensor::from(std::vector<int32_t>(values.begin(), values.end()), shape);
  else if (dtype == int64) tensor = Tensor::from(std::vector<int64_t>(values.begin(), values.end()), shape);
  else {
    std::vector<bool> bits;
    for (double x : values) bits.push_back(std::fmod(std::abs(x * 16), 2) >= 1);
    tensor = Tensor::from(bits, shape);
  }
  if (n[5]) tensor.set_requires_grad();
  return tensor;
}

const std::map<std::string, Call> &calls() {
  static const std::map<std::string, Call> all = [] {
    std::map<std::string, Call> made;
    add_elementwise(made);
    add_reductions(made);
    add_contractions(made);
    add_movement(made);
    add_indexing(made);
    add_creation(made);
    add_effects(made);
    return made;
  }();
  return all;
}

} // namespace weft::fuzz
