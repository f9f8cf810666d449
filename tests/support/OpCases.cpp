#include "tests/support/OpCases.h"

#include <map>
#include <numeric>

#include "dialects/weft/ir/Weft.h"
#include "tests/support/OpCasesConvolution.h"
#include "tests/support/OpCasesLinearAlgebra.h"
#include "tests/support/OpRows.h"

namespace weft::tests {

using ir::HostTensor;
using Shape = std::vector<int64_t>;

//===-- Elementwise ops, from their records ---------------------------------------------------===//

static std::vector<Shape> smallShapes() {
  return {{}, {1}, {7}, {2, 3, 5}, {0, 3}};
}
// Odd on purpose: no multiple of a vector, and rows that no thread boundary meets.
static std::vector<Shape> largeShapes() {
  return {{257, 1031}};
}

static std::string spellShape(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

static void addElementwise(std::vector<OpCase> &cases, llvm::StringRef op, int64_t operands) {
  auto add = [&](const Shape &shape, bool large) {
    OpCase c{op.str(), spellShape(shape), {}};
    for (int64_t i = 0; i < operands; ++i) {
      const auto &domains = rowOf(op).domains;
      const ir::OpRow::Domain &domain = domains[domains.size() == 1 ? 0 : i];
      c.operands.push_back({shape, {}, Values::Numbers, domain.lowest, domain.highest});
    }
    c.large = large;
    cases.push_back(c);
  };
  for (const Shape &shape : smallShapes())
    add(shape, false);
  for (const Shape &shape : largeShapes())
    add(shape, true);
}

//===-- The others, by name -------------------------------------------------------------------===//

static std::string list(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}
static std::string field(const char *name, int64_t value) {
  return std::string(name) + " = " + std::to_string(value) + " : i64";
}
static TensorSpec data(Shape shape) {
  return {std::move(shape)};
}
static TensorSpec indices(Shape shape, int64_t limit, DType dtype = DType::kInt64) {
  return {std::move(shape), dtype, Values::Indices, 0, 0, limit};
}
static TensorSpec booleans(Shape shape) {
  return {std::move(shape), DType::kBool, Values::Booleans};
}
static TensorSpec state() {
  return {{2}, DType::kInt64, Values::State};
}

static void addSelectAndCasts(std::vector<OpCase> &cases) {
  cases.push_back({"weft.gelu",
                   "tanh [2,9]",
                   {{{2, 9}, {}, Values::Numbers, -4, 4}},
                   "{tanh_approximation = true}"});
  cases.push_back({"weft.gelu",
                   "tanh [129,517]",
                   {{{129, 517}, {}, Values::Numbers, -6, 6}},
                   "{tanh_approximation = true}",
                   {},
                   {},
                   true});
  // Where it vanishes as exp does, so that a rounding of the exponent is many of the result.
  for (const char *tanh : {"false", "true"})
    cases.push_back({"weft.gelu",
                     std::string("tail, tanh ") + tanh + " [5003]",
                     {{{5003}, {}, Values::Numbers, -21.6, -1}},
                     std::string("{tanh_approximation = ") + tanh + "}",
                     {},
                     {},
                     true});
  for (int direction = 0; direction < 6; ++direction)
    for (const Shape &shape : {Shape{}, Shape{3, 7}, Shape{0}, Shape{130, 513}})
      cases.push_back({"weft.compare",
                       std::to_string(direction) + " " + spellShape(shape),
                       {data(shape), data(shape)},
                       "{direction = " + std::to_string(direction) + " : i32}",
                       {},
                       {},
                       shape.size() == 2 && shape[0] > 100});
  for (const Shape &shape : {Shape{}, Shape{3, 7}, Shape{0, 2}, Shape{130, 513}})
    cases.push_back({"weft.select",
                     spellShape(shape),
                     {booleans(shape), data(shape), data(shape)},
                     "{}",
                     {},
                     {},
                     shape.size() == 2 && shape[0] > 100});
  for (const Shape &shape : {Shape{}, Shape{3, 7}, Shape{0, 2}, Shape{130, 513}})
    cases.push_back({"weft.transfer",
                     spellShape(shape),
                     {data(shape)},
                     "{from = \"cpu:0\", to = \"cpu:1\"}",
                     {},
                     {},
                     shape.size() == 2 && shape[0] > 100});
  for (const Shape &shape : {Shape{}, Shape{3, 7}, Shape{0, 2}, Shape{130, 513}}) {
    cases.push_back({"weft.detach", spellShape(shape), {data(shape)}});
    cases.back().large = shape.size() == 2 && shape[0] > 100;
  }
  for (const DTypeInfo &info : kDTypes)
    for (const Shape &shape : {Shape{}, Shape{3, 7}, Shape{0, 2}, Shape{130, 513}})
      cases.push_back({"weft.cast",
                       std::string("to ") + info.name + " " + spellShape(shape),
                       {data(shape)},
                       "{}",
                       {{shape, info.dtype}},
                       {},
                       shape.size() == 2 && shape[0] > 100});
}

static void addPolygammas(std::vector<OpCase> &cases) {
  for (int64_t order : {1, 2, 3})
    for (const Shape &shape : {Shape{}, Shape{7}, Shape{3, 5}, Shape{0, 2}})
      cases.push_back({"weft.polygamma",
                       "order " + std::to_string(order) + " " + spellShape(shape),
                       {{shape, {}, Values::Numbers, 0.5, 30}},
                       "{" + field("order", order) + "}"});
}

static void addCreation(std::vector<OpCase> &cases) {
  for (const Shape &shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0}}) {
    OpCase c{"weft.constant", spellShape(shape), {}};
    c.value = data(shape);
    cases.push_back(c);
  }
  cases.push_back({"weft.iota", "dim 0", {}, "{dim = 0 : i64}", {data({7})}});
  cases.push_back({"weft.iota", "dim 1", {}, "{dim = 1 : i64}", {data({2, 5, 3})}});
  cases.push_back({"weft.iota", "large", {}, "{dim = 1 : i64}", {data({130, 513})}, {}, true});
}

static void addMovement(std::vector<OpCase> &cases) {
  auto reshape = [&](Shape from, Shape to, bool large = false) {
    cases.push_back({"weft.reshape",
                     spellShape(from) + " to " + spellShape(to),
                     {data(from)},
                     "{}",
                     {data(to)},
                     {},
                     large});
  };
  reshape({2, 6}, {3, 4});
  reshape({}, {1, 1});
  reshape({0, 3}, {5, 0});
  reshape({130, 513}, {65, 1026}, true);
  auto transpose = [&](Shape shape, Shape permutation, bool large = false) {
    cases.push_back({"weft.transpose",
                     spellShape(shape) + " by " + spellShape(permutation),
                     {data(shape)},
                     "{permutation = " + list(permutation) + "}",
                     {},
                     {},
                     large});
  };
  transpose({2, 3}, {1, 0});
  transpose({2, 3, 4}, {2, 0, 1});
  transpose({2, 3, 4, 5}, {0, 2, 1, 3});
  transpose({}, {});
  transpose({0, 3}, {1, 0});
  transpose({257, 515}, {1, 0}, true);
  transpose({16, 33, 4, 32}, {0, 2, 1, 3}, true);
  auto broadcast = [&](Shape from, Shape to, bool large = false) {
    cases.push_back({"weft.broadcast",
                     spellShape(from) + " to " + spellShape(to),
                     {data(from)},
                     "{}",
                     {data(to)},
                     {},
                     large});
  };
  broadcast({}, {3, 2});
  broadcast({3}, {2, 3});
  broadcast({3, 1}, {2, 3, 5});
  broadcast({1, 4, 1}, {2, 4, 3});
  broadcast({1}, {0});
  broadcast({513}, {130, 513}, true);
  broadcast({130, 1}, {130, 513}, true);
  auto slice = [&](Shape shape, Shape starts, Shape limits, Shape steps, bool large = false) {
    cases.push_back(
        {"weft.slice",
         spellShape(shape) + spellShape(starts) + spellShape(limits) + spellShape(steps),
         {data(shape)},
         "{starts = " + list(starts) + ", limits = " + list(limits) + ", steps = " + list(steps) +
             "}",
         {},
         {},
         large});
  };
  slice({7}, {2}, {6}, {1});
  slice({7}, {1}, {7}, {3});
  slice({7}, {6}, {-1}, {-2});
  slice({4, 5}, {1, 4}, {3, 0}, {1, -1});
  slice({4}, {2}, {2}, {1});
  slice({}, {}, {}, {});
  slice({300, 400}, {3, 399}, {299, -1}, {1, -1}, true);
  auto insert = [&](Shape base, Shape update, Shape starts, Shape steps, bool large = false) {
    cases.push_back({"weft.insert_slice",
                     spellShape(base) + spellShape(update) + spellShape(starts) + spellShape(steps),
                     {data(base), data(update)},
                     "{starts = " + list(starts) + ", steps = " + list(steps) + "}",
                     {},
                     {},
                     large});
  };
  insert({7}, {3}, {1}, {2});
  insert({7}, {3}, {5}, {-2});
  insert({4, 5}, {2, 2}, {1, 3}, {1, 1});
  insert({4}, {0}, {2}, {1});
  insert({300, 400}, {150, 200}, {0, 1}, {2, 2}, true);
  auto concat = [&](std::vector<Shape> shapes, int64_t dim, bool large = false) {
    OpCase c{"weft.concat", "dim " + std::to_string(dim), {}, "{" + field("dim", dim) + "}", {}, {},
             large};
    for (const Shape &shape : shapes) {
      c.label += " " + spellShape(shape);
      c.operands.push_back(data(shape));
    }
    cases.push_back(c);
  };
  concat({{2, 3}, {1, 3}, {4, 3}}, 0);
  concat({{2, 3}, {2, 1}}, 1);
  concat({{3}}, 0);
  concat({{0, 2}, {3, 2}}, 0);
  concat({{130, 200}, {130, 313}}, 1, true);
}

static void addReductions(std::vector<OpCase> &cases) {
  for (const char *op :
       {"weft.reduce_sum", "weft.reduce_max", "weft.reduce_min", "weft.reduce_mean"}) {
    auto add = [&](Shape shape, Shape dims, bool large = false) {
      cases.push_back({op,
                       spellShape(shape) + " over " + spellShape(dims),
                       {data(shape)},
                       "{dims = " + list(dims) + "}",
                       {},
                       {},
                       large});
    };
    add({5}, {0});
    add({3, 7}, {1});
    add({3, 7}, {0});
    add({2, 3, 5}, {0, 2});
    add({2, 3, 5}, {1});
    add({2, 3}, {0, 1});
    add({0, 3}, {1});
    add({3, 1}, {1});
    add({257, 1031}, {1}, true);
    add({257, 1031}, {0}, true);
    add({70001}, {0}, true);
    add({9, 130, 77}, {0, 2}, true);
    // Many of one number, so that all roundings of a sum go the same way.
    for (const auto &[shape, dims] : {std::pair<Shape, Shape>{{70001}, {0}},
                                      {{2, 35001}, {1}},
                                      {{35001, 3}, {0}},
                                      {{3, 7001, 20}, {1}},
                                      {{150, 2, 470}, {0, 2}}})
      cases.push_back({op,
                       "of one number " + spellShape(shape) + " over " + spellShape(dims),
                       {{shape, {}, Values::Numbers, 0.1, 0.1}},
                       "{dims = " + list(dims) + "}",
                       {},
                       {},
                       true});
  }
}

static void addProducts(std::vector<OpCase> &cases) {
  // Factors around 1, so that the product of many stays a number.
  auto add = [&](Shape shape, Shape dims, bool large = false) {
    double reach = large ? 0.01 : 0.8;
    TensorSpec factors{shape, {}, Values::Numbers, 1 - reach, 1 + reach};
    cases.push_back({"weft.reduce_prod",
                     spellShape(shape) + " over " + spellShape(dims),
                     {factors},
                     "{dims = " + list(dims) + "}",
                     {},
                     {},
                     large});
  };
  add({5}, {0});
  add({3, 7}, {1});
  add({3, 7}, {0});
  add({2, 3, 5}, {0, 2});
  add({2, 3}, {0, 1});
  add({0, 3}, {1});
  add({0, 3}, {0});
  add({257, 1031}, {1}, true);
  add({257, 1031}, {0}, true);
  add({70001}, {0}, true);
}

static void addScansAndPositions(std::vector<OpCase> &cases) {
  auto scan = [&](Shape shape, int64_t dim, bool reverse, bool large = false, bool alike = false) {
    std::string name = std::string(alike ? "of one number " : "") + spellShape(shape) + " along " +
                       std::to_string(dim),
                from = reverse ? " from the end" : "",
                both =
                    "{" + field("dim", dim) + ", reverse = " + (reverse ? "true" : "false") + "}";
    TensorSpec x = alike ? TensorSpec{shape, {}, Values::Numbers, 0.1, 0.1} : data(shape);
    cases.push_back({"weft.cumsum", name + from, {x}, both, {}, {}, large});
    // What a step multiplies stays about as large; so do products of numbers around 1.
    TensorSpec factors{shape, {}, Values::Numbers, -1, 1},
        ones{shape, {}, Values::Numbers, 0.9, 1.1};
    if (!alike)
      cases.push_back({"weft.recurrence", name + from, {factors, x}, both, {}, {}, large});
    if (reverse || alike)
      return;
    std::string one = "{" + field("dim", dim) + "}";
    cases.push_back({"weft.cumprod", name, {large ? ones : x}, one, {}, {}, large});
    for (const char *op : {"weft.cum_arg_max", "weft.cum_arg_min"})
      cases.push_back({op, name, {x}, one, {}, {}, large});
  };
  for (bool reverse : {false, true}) {
    scan({5}, 0, reverse);
    scan({3, 7}, 1, reverse);
    scan({3, 7}, 0, reverse);
    scan({2, 3, 5}, 1, reverse);
    scan({0, 3}, 1, reverse);
    scan({3, 0}, 1, reverse);
    scan({257, 1031}, 1, reverse, true);
    scan({257, 1031}, 0, reverse, true);
    scan({5, 33, 40}, 1, reverse, true);
    scan({20001}, 0, reverse, true, true);
    scan({17, 3001}, 1, reverse, true, true);
    scan({10001, 3}, 0, reverse, true, true);
  }
  for (const char *op : {"weft.arg_max", "weft.arg_min"}) {
    auto add = [&](Shape shape, int64_t dim, bool large = false) {
      cases.push_back({op,
                       spellShape(shape) + " along " + std::to_string(dim),
                       {data(shape)},
                       "{" + field("dim", dim) + "}",
                       {},
                       {},
                       large});
    };
    add({5}, 0);
    add({3, 7}, 1);
    add({3, 7}, 0);
    add({2, 3, 5}, 1);
    add({0, 3}, 1);
    add({3, 1}, 1);
    add({257, 1031}, 1, true);
    add({257, 1031}, 0, true);
    add({70001}, 0, true);
  }
  auto sort = [&](Shape shape, int64_t dim, bool descending, int64_t count = -1,
                  bool large = false) {
    cases.push_back({"weft.arg_sort",
                     spellShape(shape) + " along " + std::to_string(dim) +
                         (descending ? " down" : "") +
                         (count < 0 ? "" : ", " + std::to_string(count)),
                     {data(shape)},
                     "{" + field("dim", dim) + (descending ? ", descending = true" : "") +
                         (count < 0 ? "" : ", " + field("count", count)) + "}",
                     {},
                     {},
                     large});
  };
  for (bool descending : {false, true}) {
    sort({5}, 0, descending);
    sort({1}, 0, descending);
    sort({3, 7}, 1, descending);
    sort({3, 7}, 0, descending);
    sort({2, 3, 5}, 1, descending, 2);
    sort({0, 3}, 1, descending);
    sort({3, 0}, 1, descending, 0);
    sort({2, 3}, 1, descending, 0);
    sort({17, 260}, 1, descending, -1, true);
    sort({150, 9}, 0, descending, -1, true);
    // So few that they are looked for, not sorted.
    sort({4, 300}, 1, descending, 6, true);
    sort({400, 3}, 0, descending, 1, true);
  }
}

static void addMatmul(std::vector<OpCase> &cases) {
  auto add = [&](Shape lhs, Shape rhs, bool transposeLhs = false, bool transposeRhs = false,
                 bool large = false) {
    cases.push_back(
        {"weft.matmul",
         spellShape(lhs) + (transposeLhs ? "T" : "") + spellShape(rhs) + (transposeRhs ? "T" : ""),
         {data(lhs), data(rhs)},
         std::string("{transpose_lhs = ") + (transposeLhs ? "true" : "false") +
             ", transpose_rhs = " + (transposeRhs ? "true" : "false") + "}",
         {},
         {},
         large});
  };
  add({2, 3}, {3, 4});
  add({3, 2}, {3, 4}, true, false);
  add({2, 3}, {4, 3}, false, true);
  add({3, 2}, {4, 3}, true, true);
  add({1, 1}, {1, 1});
  add({2, 0}, {0, 3});
  add({0, 2}, {2, 3});
  add({2, 3, 4}, {4, 5});
  add({2, 4, 3}, {4, 5}, true, false);
  add({2, 3, 4}, {5, 4}, false, true);
  add({2, 4, 3}, {5, 4}, true, true);
  add({3, 4}, {2, 4, 5});
  add({2, 3, 4}, {1, 4, 5});
  add({2, 1, 3, 2}, {3, 2, 4});
  add({2, 2, 3, 2}, {2, 2, 4, 2}, false, true);
  add({129, 65}, {65, 131}, false, false, true);
  add({65, 129}, {131, 65}, true, true, true);
  add({8, 33, 40}, {8, 40, 17}, false, false, true);
  add({8, 33, 40}, {40, 17}, false, false, true);
  // More terms than our own kernel takes at a time.
  add({19, 530}, {530, 27}, false, false, true);
  add({530, 19}, {27, 530}, true, true, true);
}

static void addIndexing(std::vector<OpCase> &cases) {
  auto dim = [](int64_t d) {
    return "{" + field("dim", d) + "}";
  };
  cases.push_back({"weft.index_select", "rows", {data({5, 3}), indices({4}, 5)}, dim(0)});
  cases.push_back({"weft.index_select",
                   "middle, 2-d i32",
                   {data({2, 5, 3}), indices({2, 2}, 5, DType::kInt32)},
                   dim(1)});
  cases.push_back({"weft.index_select", "scalar index", {data({5, 3}), indices({}, 5)}, dim(0)});
  cases.push_back({"weft.index_select", "no index", {data({5, 3}), indices({0}, 5)}, dim(0)});
  cases.push_back({"weft.index_select",
                   "large",
                   {data({301, 129}), indices({40, 33}, 301)},
                   dim(0),
                   {},
                   {},
                   true});
  cases.push_back(
      {"weft.index_add", "rows", {data({5, 3}), indices({4}, 5), data({4, 3})}, dim(0)});
  cases.push_back({"weft.index_add",
                   "middle",
                   {data({2, 5, 3}), indices({2, 2}, 5), data({2, 2, 2, 3})},
                   dim(1)});
  cases.push_back(
      {"weft.index_add", "no index", {data({5, 3}), indices({0}, 5), data({0, 3})}, dim(0)});
  cases.push_back({"weft.index_add",
                   "large",
                   {data({101, 129}), indices({700}, 101), data({700, 129})},
                   dim(0),
                   {},
                   {},
                   true});
  cases.push_back(
      {"weft.index_put", "rows", {data({5, 3}), indices({4}, 5), data({4, 3})}, dim(0)});
  cases.push_back(
      {"weft.index_put", "repeats", {data({2, 3}), indices({7}, 2), data({7, 3})}, dim(0)});
  cases.push_back({"weft.index_put",
                   "middle",
                   {data({2, 5, 3}), indices({2, 2}, 5), data({2, 2, 2, 3})},
                   dim(1)});
  cases.push_back(
      {"weft.index_put", "no index", {data({5, 3}), indices({0}, 5), data({0, 3})}, dim(0)});
  cases.push_back(
      {"weft.index_put", "scalar index", {data({5, 3}), indices({}, 5), data({3})}, dim(0)});
  cases.push_back({"weft.index_put",
                   "large",
                   {data({101, 129}), indices({700}, 101), data({700, 129})},
                   dim(0),
                   {},
                   {},
                   true});
  cases.push_back({"weft.gather", "dim 0", {data({4, 3}), indices({2, 3}, 4)}, dim(0)});
  cases.push_back(
      {"weft.gather", "dim 1, i32", {data({4, 3}), indices({4, 5}, 3, DType::kInt32)}, dim(1)});
  cases.push_back({"weft.gather", "fewer rows", {data({4, 3}), indices({2, 2}, 3)}, dim(1)});
  cases.push_back(
      {"weft.gather", "large", {data({130, 513}), indices({130, 513}, 513)}, dim(1), {}, {}, true});
  cases.push_back(
      {"weft.scatter_add", "dim 0", {data({4, 3}), indices({2, 3}, 4), data({2, 3})}, dim(0)});
  cases.push_back(
      {"weft.scatter_add", "dim 1", {data({4, 3}), indices({4, 5}, 3), data({4, 5})}, dim(1)});
  cases.push_back({"weft.scatter_add",
                   "large",
                   {data({130, 113}), indices({130, 513}, 113), data({130, 513})},
                   dim(1),
                   {},
                   {},
                   true});
  cases.push_back({"weft.scatter_add",
                   "columns",
                   {data({40, 150}), indices({90, 150}, 40), data({90, 150})},
                   dim(0),
                   {},
                   {},
                   true});
  cases.push_back({"weft.scatter_add",
                   "some columns",
                   {data({40, 70}), indices({9, 50}, 40), data({9, 50})},
                   dim(0),
                   {},
                   {},
                   true});
  cases.push_back({"weft.scatter_add",
                   "middle",
                   {data({3, 7, 20}), indices({3, 11, 20}, 7), data({3, 11, 20})},
                   dim(1),
                   {},
                   {},
                   true});
  auto put = [&](const char *label, Shape base, Shape source, int64_t d, bool large = false) {
    cases.push_back({"weft.scatter",
                     label,
                     {data(base), indices(source, base[static_cast<size_t>(d)]), data(source)},
                     dim(d),
                     {},
                     {},
                     large});
  };
  put("dim 0", {4, 3}, {2, 3}, 0);
  put("repeats", {4, 3}, {4, 5}, 1);
  put("large", {130, 113}, {130, 513}, 1, true);
  put("columns", {40, 150}, {90, 150}, 0, true);
  put("some columns", {40, 70}, {9, 50}, 0, true);
  put("middle", {3, 7, 20}, {3, 11, 20}, 1, true);
  for (int combiner = 0; combiner < 3; ++combiner) {
    auto add = [&](const char *label, Shape base, Shape source, int64_t d, bool large = false) {
      OpCase c{"weft.scatter_reduce",
               std::string(label) + ", combiner " + std::to_string(combiner),
               {data(base), indices(source, base[static_cast<size_t>(d)]), data(source)},
               "{combiner = " + std::to_string(combiner) + " : i32, " + field("dim", d) + "}"};
      c.large = large;
      cases.push_back(c);
    };
    add("dim 0", {4, 3}, {2, 3}, 0);
    add("dim 1", {4, 3}, {4, 5}, 1);
    add("large", {130, 113}, {130, 513}, 1, true);
    add("columns", {40, 150}, {90, 150}, 0, true);
    add("some columns", {40, 70}, {9, 50}, 0, true);
    add("middle", {3, 7, 20}, {3, 11, 20}, 1, true);
    add("few columns", {3, 4, 5}, {2, 3, 4}, 1);
  }
}

static void addRandom(std::vector<OpCase> &cases) {
  for (const char *op : {"weft.random_uniform", "weft.random_normal"})
    for (const Shape &shape : {Shape{}, Shape{5}, Shape{0}, Shape{3, 67}, Shape{130, 513}})
      cases.push_back({op,
                       spellShape(shape),
                       {state()},
                       "{offset = 3 : i64}",
                       {data(shape)},
                       {},
                       shape.size() == 2 && shape[0] > 100});
  cases.push_back({"weft.random_advance", "by 5", {state()}, "{amount = 5 : i64}"});
  for (const Shape &shape : {Shape{}, Shape{5}, Shape{0}, Shape{3, 67}, Shape{130, 513}})
    cases.push_back({"weft.dropout",
                     spellShape(shape),
                     {data(shape), state()},
                     "{rate = 0.3 : f64, offset = 2 : i64}",
                     {},
                     {},
                     shape.size() == 2 && shape[0] > 100});
}

static void addComposites(std::vector<OpCase> &cases) {
  for (const char *op : {"weft.softmax", "weft.log_softmax"}) {
    auto add = [&](Shape shape, int64_t dim, bool large = false) {
      cases.push_back({op,
                       spellShape(shape) + " dim " + std::to_string(dim),
                       {data(shape)},
                       "{" + field("dim", dim) + "}",
                       {},
                       {},
                       large});
    };
    add({7}, 0);
    add({3, 5}, 1);
    add({2, 3, 4}, 1);
    add({0, 3}, 1);
    add({2, 1}, 1);
    add({130, 513}, 1, true);
    add({33, 40, 65}, 1, true);
  }
  auto norm = [&](Shape shape, int64_t rank, bool weight, bool bias, bool large = false) {
    Shape inner(shape.end() - rank, shape.end());
    OpCase c{"weft.layer_norm",
             spellShape(shape) + (weight ? " weight" : "") + (bias ? " bias" : "") + " over " +
                 std::to_string(rank),
             {data(shape)}};
    if (weight)
      c.operands.push_back(data(inner));
    if (bias)
      c.operands.push_back(data(inner));
    c.attributes = "{" + field("normalized_rank", rank) +
                   ", eps = 1.0e-5 : f64, operandSegmentSizes = array<i32: 1, " +
                   std::to_string(weight) + ", " + std::to_string(bias) + ">}";
    c.large = large;
    cases.push_back(c);
  };
  norm({3, 5}, 1, true, true);
  norm({3, 5}, 1, true, false);
  norm({3, 5}, 1, false, true);
  norm({3, 5}, 1, false, false);
  norm({2, 3, 4}, 2, true, true);
  norm({4}, 1, true, true);
  norm({0, 4}, 1, true, true);
  norm({130, 517}, 1, true, true, true);
  enum Mask { kNone, kBool, kFloat };
  auto attention = [&](Shape batch, int64_t tq, int64_t tk, int64_t d, int64_t dv, bool causal,
                       Mask mask, bool large = false) {
    auto with = [&](int64_t a, int64_t b) {
      Shape shape = batch;
      shape.insert(shape.end(), {a, b});
      return shape;
    };
    OpCase c{"weft.attention",
             spellShape(batch) + " " + std::to_string(tq) + "x" + std::to_string(tk) +
                 (causal ? " causal" : "") +
                 (mask == kBool    ? " bool mask"
                  : mask == kFloat ? " float mask"
                                   : ""),
             {data(with(tq, d)), data(with(tk, d)), data(with(tk, dv))}};
    if (mask == kBool)
      c.operands.push_back(booleans({tq, tk}));
    if (mask == kFloat)
      c.operands.push_back(data({tq, 1}));
    c.attributes = std::string("{causal = ") + (causal ? "true" : "false") + ", scale = 0.4 : f64}";
    c.large = large;
    cases.push_back(c);
  };
  attention({}, 3, 4, 2, 3, false, kNone);
  attention({2}, 3, 3, 2, 2, true, kNone);
  attention({2, 2}, 2, 4, 3, 2, true, kNone);
  attention({2}, 3, 4, 2, 2, false, kBool);
  attention({2}, 3, 4, 2, 2, false, kFloat);
  attention({1}, 4, 2, 2, 2, true,
            kNone); // the first queries see nothing: their log_sum_exp is -inf
  cases.back().smooth = false;
  attention({4, 3}, 65, 65, 16, 16, true, kNone, true);
  attention({2, 3}, 37, 65, 16, 24, false, kBool, true);
  auto attentionGradient = [&](Shape batch, int64_t tq, int64_t tk, int64_t d, int64_t dv,
                               bool causal, Mask mask, bool sum, bool large = false) {
    auto with = [&](Shape last) {
      last.insert(last.begin(), batch.begin(), batch.end());
      return last;
    };
    OpCase c{"weft.attention_gradient",
             spellShape(batch) + " " + std::to_string(tq) + "x" + std::to_string(tk) +
                 (causal ? " causal" : "") +
                 (mask == kBool    ? " bool mask"
                  : mask == kFloat ? " float mask"
                                   : "") +
                 (sum ? " sum" : ""),
             {data(with({tq, d})),
              data(with({tk, d})),
              data(with({tk, dv})),
              data(with({tq, dv})),
              // Probabilities of at most 1, as those of attention's own log_sum_exp.
              {with({tq}), {}, Values::Numbers, 12, 16},
              data(with({tq, dv}))}};
    if (mask == kBool)
      c.operands.push_back(booleans({tq, tk}));
    if (mask == kFloat)
      c.operands.push_back(data({tq, 1}));
    if (sum)
      c.operands.push_back(data(with({tq})));
    c.operands[4].wide = true;
    if (sum)
      c.operands.back().wide = true;
    c.attributes = std::string("{causal = ") + (causal ? "true" : "false") +
                   ", scale = 0.4 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, " +
                   (mask == kNone ? "0, " : "1, ") + (sum ? "1>}" : "0>}");
    c.large = large;
    cases.push_back(c);
  };
  attentionGradient({}, 3, 4, 2, 3, false, kNone, false);
  attentionGradient({2}, 3, 3, 2, 2, true, kNone, true);
  attentionGradient({2, 2}, 2, 4, 3, 2, true, kNone, false);
  attentionGradient({2}, 3, 4, 2, 2, false, kBool, true);
  attentionGradient({2}, 3, 4, 2, 2, false, kFloat, false);
  attentionGradient({4, 3}, 65, 65, 16, 16, true, kNone, true, true);
  attentionGradient({2, 3}, 37, 65, 16, 24, false, kBool, false, true);
  auto crossEntropy = [&](Shape rows, int64_t classes, int64_t ignored, bool large = false) {
    Shape shape = rows;
    shape.push_back(classes);
    cases.push_back({"weft.cross_entropy",
                     spellShape(shape) + " ignoring " + std::to_string(ignored),
                     {data(shape), indices(rows, classes)},
                     "{" + field("ignore_index", ignored) + "}",
                     {},
                     {},
                     large});
  };
  crossEntropy({5}, 4, -100);
  crossEntropy({5}, 4, 2);
  crossEntropy({2, 3}, 3, -100);
  crossEntropy({}, 6, -100);
  crossEntropy({0}, 4, -100);
  crossEntropy({301}, 131, 7, true);
}

//===-- All -----------------------------------------------------------------------------------===//

static std::vector<mlir::RegisteredOperationName> weftOps(mlir::MLIRContext &context) {
  context.loadDialect<ir::WeftDialect>();
  std::vector<mlir::RegisteredOperationName> ops;
  for (mlir::RegisteredOperationName op : context.getRegisteredOperationsByDialect("weft")) {
    auto *rules = op.getInterface<ir::WeftOp>();
    if (rules && rules->kind() != ir::Kind::Structure && findRow(op.getStringRef()))
      ops.push_back(op);
  }
  return ops;
}

std::vector<std::string> opsWithCases(mlir::MLIRContext &context) {
  std::vector<std::string> names;
  for (mlir::RegisteredOperationName op : weftOps(context))
    names.push_back(op.getStringRef().str());
  return names;
}

std::vector<OpCase> allCases(mlir::MLIRContext &context) {
  std::vector<OpCase> cases;
  for (mlir::RegisteredOperationName op : weftOps(context)) {
    if (!op.hasInterface<ir::ElementwiseOp>() ||
        !op.hasTrait<mlir::OpTrait::SameOperandsAndResultType>())
      continue;
    if (op.hasTrait<mlir::OpTrait::OneOperand>())
      addElementwise(cases, op.getStringRef(), 1);
    else if (op.hasTrait<mlir::OpTrait::NOperands<2>::Impl>())
      addElementwise(cases, op.getStringRef(), 2);
  }
  addSelectAndCasts(cases);
  addPolygammas(cases);
  addCreation(cases);
  addMovement(cases);
  addReductions(cases);
  addProducts(cases);
  addScansAndPositions(cases);
  addMatmul(cases);
  addIndexing(cases);
  addRandom(cases);
  addComposites(cases);
  addConvolutionCases(cases);
  addLinearAlgebraCases(cases);
  return cases;
}

OpCase gentle(OpCase c) {
  for (TensorSpec &operand : c.operands) {
    bool positive = operand.low > 0;
    operand.low = std::max(operand.low, positive ? 0.4 : -3);
    operand.high = std::min(operand.high, positive ? 4. : 3.);
  }
  return c;
}

HostTensor sample(const TensorSpec &spec, DType dtype, int64_t index, int64_t count) {
  bool isWide = spec.wide && is_floating(dtype) && byte_size(dtype) < 4;
  HostTensor tensor(isWide ? DType::kFloat32 : spec.dtype.value_or(dtype), spec.shape);
  int64_t n = tensor.size();
  // A permutation of 0 .. n-1: multiples of a number without a factor in common with n.
  int64_t factor = 7919 + 2 * index;
  while (n > 1 && std::gcd(factor, n) != 1)
    ++factor;
  for (int64_t i = 0; i < n; ++i) {
    int64_t k = (i * (factor % n) + 3 * index) % n;
    switch (spec.values) {
    case Values::Dominant: {
      int64_t size = spec.shape.back(), row = i / size % size;
      tensor.set(i, (4. * k / n - 2) / size + (i % size == row ? 3 : 0));
      break;
    }
    case Values::Numbers: {
      // Operands get their own fractions of a step, so that no two elements of two operands are
      // equal, and none is 0.
      double x = spec.low + (spec.high - spec.low) * (k + (index + 1) / (count + 1.5)) / n;
      if (is_floating(tensor.dtype))
        tensor.set(i, x);
      else if (tensor.dtype == DType::kBool)
        tensor.setInt(i, k % 3 != 0);
      else
        tensor.setInt(i, static_cast<int64_t>(std::lround(x * 20)));
      break;
    }
    case Values::Indices:
      tensor.setInt(i, (k * k + i) % spec.limit);
      break;
    case Values::Booleans:
      tensor.setInt(i, k % 3 != 0);
      break;
    case Values::Listed:
      tensor.setInt(i, spec.list[i]);
      break;
    case Values::State:
      tensor.setInt(i, i == 0 ? 0x1234567890abcdef : 1000);
      break;
    }
  }
  return tensor;
}

} // namespace weft::tests
