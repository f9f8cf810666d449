// The table: elementwise functions from their records, reductions and contractions.
#include "tests/fuzz/draw.h"

namespace weft::fuzz {

void add_elementwise(Calls &all) {
#define WEFT_UNARY(function, record, operands, doc)                                                \
  all[#function] = {[](Draw &d) { return draw_unary(d, tests::rowOf(#function)); },                \
                    [](const Tensors &a, const Step &) { return weft::function(a[0]); },           \
                    "weft::" #function "($0)"};
#define WEFT_BINARY(function, record, operands, doc)                                               \
  all[#function] = {[](Draw &d) { return draw_binary(d, tests::rowOf(#function)); },               \
                    [](const Tensors &a, const Step &) { return weft::function(a[0], a[1]); },     \
                    "weft::" #function "($0, $1)"};                                                \
  all[#function " scalar"] = {                                                                     \
      draw_with_scalar,                                                                            \
      [](const Tensors &a, const Step &s) { return weft::function(a[0], scalar_of(s, 0)); },       \
      "weft::" #function "($0, %0)", 0.5};                                                         \
  all["scalar " #function] = {                                                                     \
      draw_with_scalar,                                                                            \
      [](const Tensors &a, const Step &s) { return weft::function(scalar_of(s, 0), a[0]); },       \
      "weft::" #function "(%0, $0)", 0.25};
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  // Below 0 they have zeros at which digits cancel, and poles.
  auto draw_positive = [](Draw &d, double from) -> Drawn {
    int x = d.value(floating);
    if (x < 0)
      return {};
    int positive = d.add({"abs", {x}});
    return step({d.add({"add scalar", {positive}, {{static_cast<int64_t>(from * kScalarUnit)}}})});
  };
  all["lgamma"].draw = [=](Draw &d) {
    return draw_positive(d, 0.1);
  };
  all["polygamma"] = {[=](Draw &d) { return draw_positive(d, 2.5); },
                      [](const Tensors &a, const Step &) { return polygamma(1, a[0]); },
                      "weft::polygamma(1, $0)", 0.3};
  all["div"] = {[](Draw &d) { return draw_binary(d, tests::rowOf("div")); },
                [](const Tensors &a, const Step &) { return a[0] / a[1]; }, "$0 / $1"};
  all["remainder"] = {[](Draw &d) { return draw_binary(d, tests::rowOf("rem")); },
                      [](const Tensors &a, const Step &) { return remainder(a[0], a[1]); },
                      "weft::remainder($0, $1)"};
  all["atan2"] = {[](Draw &d) { return draw_binary(d, tests::rowOf("atan2")); },
                  [](const Tensors &a, const Step &) { return atan2(a[0], a[1]); },
                  "weft::atan2($0, $1)", 0.5};
  all["square"] = {[](Draw &d) -> Drawn {
                     int x = d.value(numeric);
                     return x < 0 ? Drawn() : step({tame(d, x, -4, 4)});
                   },
                   [](const Tensors &a, const Step &) { return square(a[0]); }, "weft::square($0)"};
  for (bool approximate : {false, true})
    all[approximate ? "gelu tanh" : "gelu"] = {
        [](Draw &d) { return draw_unary(d, tests::rowOf("gelu")); },
        [=](const Tensors &a, const Step &) { return gelu(a[0], approximate ? "tanh" : "none"); },
        approximate ? "weft::gelu($0, \"tanh\")" : "weft::gelu($0)"};
  all["logical_not"] = {[](Draw &d) -> Drawn {
                          int x = d.value(any);
                          return x < 0 ? Drawn() : step({x});
                        },
                        [](const Tensors &a, const Step &) { return logical_not(a[0]); },
                        "weft::logical_not($0)", 0.3};
  using Function = Tensor (*)(TensorArg, TensorArg, Location);
  struct Pair {
    const char *name;
    Function function;
    bool (*fits)(const Tensor &);
  };
  auto bits = [](const Tensor &x) {
    return !is_floating(x.dtype());
  };
  auto integers = [](const Tensor &x) {
    return is_integer(x.dtype());
  };
  for (Pair p : {Pair{"logical_and", logical_and, any},
                 {"logical_or", logical_or, any},
                 {"bitwise_and", bitwise_and, bits},
                 {"bitwise_or", bitwise_or, bits},
                 {"logical_xor", logical_xor, any},
                 {"bitwise_xor", bitwise_xor, bits},
                 {"bitwise_left_shift", bitwise_left_shift, integers},
                 {"bitwise_right_shift", bitwise_right_shift, integers},
                 {"eq", eq, any},
                 {"ne", ne, any},
                 {"lt", lt, any},
                 {"le", le, any},
                 {"gt", gt, any},
                 {"ge", ge, any}})
    all[p.name] = {
        [=](Draw &d) { return draw_pair(d, p.fits); },
        [=](const Tensors &a, const Step &) { return p.function(a[0], a[1], Location::current()); },
        std::string("weft::") + p.name + "($0, $1)", 0.3};
  all["where"] = {[](Draw &d) -> Drawn {
                    int c = d.value(boolean_);
                    if (c < 0)
                      return {};
                    int x = d.value(broadcasts_with(d[c].shape()));
                    if (x < 0)
                      return {};
                    Shape shape = *broadcast_shape(d[c].shape(), d[x].shape());
                    int y = d.value(broadcasts_with(shape));
                    return y < 0 ? Drawn() : step({c, x, y});
                  },
                  [](const Tensors &a, const Step &) { return where(a[0], a[1], a[2]); },
                  "weft::where($0, $1, $2)", 2};
  all["masked_fill"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(numeric);
        if (x < 0)
          return {};
        int m = d.value(both(boolean_, fits_into(d[x].shape())));
        return m < 0 ? Drawn() : step({x, m}, {{a_scalar(d)}});
      },
      [](const Tensors &a, const Step &s) { return masked_fill(a[0], a[1], scalar_of(s, 0)); },
      "weft::masked_fill($0, $1, %0)"};
  all["clamp"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(numeric);
        return x < 0 ? Drawn()
                     : step({x}, {{d.random.between(-2000, 0)}, {d.random.between(0, 2000)}});
      },
      [](const Tensors &a, const Step &s) { return clamp(a[0], scalar_of(s, 0), scalar_of(s, 1)); },
      "weft::clamp($0, %0, %1)", 0.5};
  all["to"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(any);
        static const std::vector<DType> to = {float32,  float32, float32, float32, float64, float64,
                                              int32,    int32,   int64,   int64,   boolean, boolean,
                                              bfloat16, float16, int8,    int16,   uint8};
        return x < 0 ? Drawn() : step({x}, {{static_cast<int64_t>(d.random.of(to))}});
      },
      [](const Tensors &a, const Step &s) { return a[0].to(static_cast<DType>(s.numbers[0][0])); },
      "$0.to(@0)"};
}

void add_reductions(Calls &all) {
  using Function = Tensor (*)(const Tensor &, Dims, bool, Location);
  auto add = [&](const char *name, Function function, std::function<Drawn(Draw &)> draw) {
    all[name] = {std::move(draw),
                 [=](const Tensors &a, const Step &s) {
                   return function(a[0], Dims(s.numbers[0]), s.numbers[1][0] != 0,
                                   Location::current());
                 },
                 std::string("weft::") + name + "($0, {#0}, #1)", 1.5};
  };
  add("sum", sum, [](Draw &d) { return draw_reduction(d, any); });
  add("mean", mean, [](Draw &d) { return draw_reduction(d, floating); });
  add("max", max, [](Draw &d) { return draw_extremum(d, numeric); });
  add("min", min, [](Draw &d) { return draw_extremum(d, numeric); });
  all["norm"] = {[](Draw &d) { return draw_reduction(d, floating); },
                 [](const Tensors &a, const Step &s) {
                   return norm(a[0], 2, Dims(s.numbers[0]), s.numbers[1][0] != 0);
                 },
                 "weft::norm($0, 2, {#0}, #1)", 1.5};
  all["var"] = {[](Draw &d) { return draw_extremum(d, floating); },
                [](const Tensors &a, const Step &s) {
                  return var(a[0], Dims(s.numbers[0]), 0, s.numbers[1][0] != 0);
                },
                "weft::var($0, {#0}, 0, #1)"};
  add("prod", prod, [](Draw &d) { return draw_reduction(d, floating); });
  for (bool least : {false, true})
    all[least ? "argmin" : "argmax"] = {
        [](Draw &d) -> Drawn {
          int x =
              d.value([](const Tensor &t) { return numeric(t) && t.ndim() > 0 && t.size() > 0; });
          return x < 0 ? Drawn() : step({x}, {{d.random.below(d[x].ndim())}, {d.random.below(2)}});
        },
        [=](const Tensors &a, const Step &s) {
          bool keep = s.numbers[1][0] != 0;
          return least ? argmin(a[0], s.numbers[0][0], keep) : argmax(a[0], s.numbers[0][0], keep);
        },
        std::string("weft::") + (least ? "argmin" : "argmax") + "($0, #0, #1)", 0.3};
  all["cumsum"] = {[](Draw &d) { return draw_with_dim(d, numeric); },
                   [](const Tensors &a, const Step &s) { return cumsum(a[0], s.numbers[0][0]); },
                   "weft::cumsum($0, #0)", 0.5};
  all["cumprod"] = {[](Draw &d) { return draw_with_dim(d, numeric); },
                    [](const Tensors &a, const Step &s) { return cumprod(a[0], s.numbers[0][0]); },
                    "weft::cumprod($0, #0)", 0.3};
  for (bool least : {false, true})
    all[least ? "cummin" : "cummax"] = {
        [](Draw &d) { return draw_with_dim(d, numeric); },
        [=](const Tensors &a, const Step &s) {
          int64_t dim = s.numbers[0][0];
          return (least ? cummin(a[0], dim) : cummax(a[0], dim)).first;
        },
        std::string("weft::") + (least ? "cummin" : "cummax") + "($0, #0).first", 0.3};
  all["logcumsumexp"] = {
      [](Draw &d) { return draw_with_dim(d, floating); },
      [](const Tensors &a, const Step &s) { return logcumsumexp(a[0], s.numbers[0][0]); },
      "weft::logcumsumexp($0, #0)", 0.3};
  all["index_put"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(
            [](const Tensor &t) { return floating(t) && t.ndim() > 0 && t.shape()[0] > 0; });
        if (x < 0)
          return {};
        Shape source = d[x].shape();
        int64_t size = source[0];
        source[0] = d.random.of(std::vector<int64_t>{1, 3, 4});
        return step({x, d.indices({source[0]}, size), d.numbers(d[x].dtype(), source, -1, 1)});
      },
      [](const Tensors &a, const Step &) { return index_put(a[0], {a[1]}, a[2]); },
      "weft::index_put($0, {$1}, $2)", 0.3};
  for (const char *name : {"softmax", "log_softmax"}) {
    bool log = name[0] == 'l';
    all[name] = {[](Draw &d) { return draw_with_dim(d, floating); },
                 [=](const Tensors &a, const Step &s) {
                   return log ? log_softmax(a[0], s.numbers[0][0]) : softmax(a[0], s.numbers[0][0]);
                 },
                 std::string("weft::") + name + "($0, #0)"};
  }
}

void add_contractions(Calls &all) {
  all["matmul"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(both(numeric, not_scalar));
        if (x < 0)
          return {};
        Shape a = d[x].shape();
        if (d[x].size() > 20000)
          return {};
        // Mostly with a new right-hand side; else with a value that happens to fit.
        DType dtype = d[x].dtype();
        int y = d.random.chance(0.4) ? d.value([&](const Tensor &t) {
          if (t.dtype() != dtype || t.ndim() < 1 || t.size() > 20000)
            return false;
          Shape b = t.shape();
          if (b[b.size() == 1 ? 0 : b.size() - 2] != a.back())
            return false;
          Shape left(a.begin(), a.end() - std::min<int64_t>(2, static_cast<int64_t>(a.size())));
          Shape right(b.begin(), b.end() - std::min<int64_t>(2, static_cast<int64_t>(b.size())));
          return broadcast_shape(left, right).has_value();
        })
                                     : -1;
        if (y < 0)
          y = d.numbers(dtype, {a.back(), d.random.of(std::vector<int64_t>{1, 2, 3, 5, 8, 17})}, -1,
                        1);
        return step({x, y});
      },
      [](const Tensors &a, const Step &) { return matmul(a[0], a[1]); }, "weft::matmul($0, $1)", 2};
  // Of a symmetric matrix that is well away from singular ones.
  auto draw_rows = [](Draw &d) -> Drawn {
    int x = d.value(both(matrix, [](const Tensor &t) {
      bool is_wide = t.dtype() == DType::kFloat32 || t.dtype() == DType::kFloat64;
      return is_wide && t.ndim() == 2 && t.size(0) <= 64 && t.size() < 2000;
    }));
    return x < 0 ? Drawn() : step({x});
  };
  auto square_of = [](const Tensor &x) {
    Tensor rows = nan_to_num(tanh(x));
    return matmul(rows, rows.mT()) + eye(rows.size(0), {}, rows.dtype()).to(rows.device());
  };
  std::string rows = "weft::nan_to_num(weft::tanh($0))",
              square = "weft::matmul(" + rows + ", " + rows +
                       ".mT()) + weft::eye($0.size(0), {}, $0.dtype()).to($0.device())";
  all["cholesky"] = {draw_rows,
                     [=](const Tensors &a, const Step &) { return cholesky(square_of(a[0])); },
                     "weft::cholesky(" + square + ")", 0.5};
  all["solve_triangular"] = {
      draw_rows,
      [=](const Tensors &a, const Step &) {
        return solve_triangular(square_of(a[0]), nan_to_num(tanh(a[0])), false);
      },
      "weft::solve_triangular(" + square + ", " + rows + ", false)", 0.5};
  all["slogdet"] = {
      draw_rows,
      [=](const Tensors &a, const Step &) { return slogdet(square_of(a[0])).logabsdet; },
      "weft::slogdet(" + square + ").logabsdet", 0.5};
  all["linear"] = {[](Draw &d) -> Drawn {
                     int x = d.value(both(floating, not_scalar));
                     if (x < 0 || d[x].size() > 20000)
                       return {};
                     int64_t out = d.random.of(std::vector<int64_t>{1, 3, 8});
                     int w = d.numbers(d[x].dtype(), {out, d[x].shape().back()}, -1, 1);
                     if (d.random.chance(0.3))
                       return step({x, w});
                     return step({x, w, d.numbers(d[x].dtype(), {out}, -1, 1)});
                   },
                   [](const Tensors &a, const Step &) {
                     return linear(a[0], a[1], a.size() > 2 ? a[2] : Tensor());
                   },
                   "weft::linear($0, $1, $2)"};
  all["layer_norm"] = {[](Draw &d) -> Drawn {
                         int x = d.value(both(floating, not_scalar));
                         if (x < 0)
                           return {};
                         Shape shape = d[x].shape();
                         Shape inner(shape.end() -
                                         d.random.between(1, std::min<int64_t>(2, d[x].ndim())),
                                     shape.end());
                         std::vector<int> args = {x};
                         if (d.random.chance(0.7))
                           args.push_back(d.numbers(d[x].dtype(), inner, 0.5, 2));
                         if (args.size() > 1 && d.random.chance(0.7))
                           args.push_back(d.numbers(d[x].dtype(), inner, -1, 1));
                         return step(args, {inner});
                       },
                       [](const Tensors &a, const Step &s) {
                         return layer_norm(a[0], s.numbers[0], a.size() > 1 ? a[1] : Tensor(),
                                           a.size() > 2 ? a[2] : Tensor());
                       },
                       "weft::layer_norm($0, {#0}, $1, $2)"};
  all["attention"] = {
      [](Draw &d) -> Drawn {
        int x =
            d.value([](const Tensor &t) { return floating(t) && matrix(t) && t.size() < 5000; });
        if (x < 0)
          return {};
        Shape key = d[x].shape(), value = key;
        key[key.size() - 2] = value[value.size() - 2] = d.random.of(std::vector<int64_t>{1, 3, 8});
        value.back() = d.random.of(std::vector<int64_t>{2, 5});
        DType dtype = d[x].dtype();
        std::vector<int> args = {x, d.numbers(dtype, key, -1, 1), d.numbers(dtype, value, -1, 1)};
        int64_t mask = d.random.below(3);
        Shape scores = {d[x].shape()[key.size() - 2], key[key.size() - 2]};
        if (mask == 1)
          args.push_back(d.numbers(boolean, scores, 0, 1));
        if (mask == 2)
          args.push_back(d.numbers(dtype, {scores[1]}, -1, 1));
        return step(args, {{d.random.below(2)}});
      },
      [](const Tensors &a, const Step &s) {
        return attention(a[0], a[1], a[2], a.size() > 3 ? a[3] : Tensor(),
                         AttentionOptions{.causal = s.numbers[0][0] != 0, .scale = {}});
      },
      "weft::attention($0, $1, $2, $3, {.causal = bool(#0)})", 0.7};
  all["cross_entropy"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(
            [](const Tensor &t) { return floating(t) && t.ndim() > 0 && t.shape().back() > 0; });
        if (x < 0)
          return {};
        Shape rows = d[x].shape();
        int64_t classes = rows.back();
        rows.pop_back();
        return step({x, d.indices(rows, classes)},
                    {{d.random.below(3)}, {d.random.chance(0.3) ? 0 : -100}});
      },
      [](const Tensors &a, const Step &s) {
        return cross_entropy(a[0], a[1], static_cast<Reduction>(s.numbers[0][0]), s.numbers[1][0]);
      },
      "weft::cross_entropy($0, $1, weft::Reduction(#0), #1)", 0.7};
  all["mse_loss"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(floating);
        if (x < 0)
          return {};
        Shape shape = d[x].shape();
        DType dtype = d[x].dtype();
        int y = d.value([&](const Tensor &t) { return t.dtype() == dtype && t.shape() == shape; });
        return step({x, y}, {{d.random.below(3)}});
      },
      [](const Tensors &a, const Step &s) {
        return mse_loss(a[0], a[1], static_cast<Reduction>(s.numbers[0][0]));
      },
      "weft::mse_loss($0, $1, weft::Reduction(#0))", 0.5};
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
    add_images(made);
    return made;
  }();
  return all;
}

} // namespace weft::fuzz
