// Rows of the table: views and copies, indexing, new tensors, writes, evaluation and derivatives.
#include <utility>

#include "tests/fuzz/draw.h"

namespace weft::fuzz {

void add_movement(Calls &all) {
  all["reshape"] = {[](Draw &d) -> Drawn {
                      int x = d.value(any);
                      return x < 0 ? Drawn() : step({x}, {shape_of_size(d, d[x].size())});
                    },
                    [](const Tensors &a, const Step &s) { return a[0].reshape(s.numbers[0]); },
                    "$0.reshape({#0})"};
  all["permute"] = {[](Draw &d) -> Drawn {
                      int x = d.value(not_scalar);
                      return x < 0 ? Drawn() : step({x}, {a_permutation(d, d[x].ndim())});
                    },
                    [](const Tensors &a, const Step &s) { return a[0].permute(s.numbers[0]); },
                    "$0.permute({#0})", 1.5};
  all["flatten"] = {[](Draw &d) -> Drawn {
                      int x = d.value(not_scalar);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return a[0].flatten(); }, "$0.flatten()",
                    0.3};
  all["unsqueeze"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return t.ndim() < 4; });
        return x < 0 ? Drawn() : step({x}, {{d.random.between(0, d[x].ndim())}});
      },
      [](const Tensors &a, const Step &s) { return a[0].unsqueeze(s.numbers[0][0]); },
      "$0.unsqueeze(#0)", 0.7};
  all["squeeze"] = {[](Draw &d) -> Drawn {
                      int x = d.value(any);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return a[0].squeeze(); }, "$0.squeeze()",
                    0.3};
  all["expand"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return t.ndim() < 4 && t.size() < 2000; });
        if (x < 0)
          return {};
        Shape shape = d[x].shape();
        for (int64_t &n : shape)
          if (n == 1)
            n = d.random.of(std::vector<int64_t>{1, 2, 3, 5});
        if (d.random.chance(0.6))
          shape.insert(shape.begin(), d.random.of(std::vector<int64_t>{0, 1, 2, 3}));
        return step({x}, {shape});
      },
      [](const Tensors &a, const Step &s) { return a[0].expand(s.numbers[0]); }, "$0.expand({#0})"};
  all["slice"] = {draw_slice,
                  [](const Tensors &a, const Step &s) {
                    return a[0].slice(s.numbers[0][0], s.numbers[1][0], s.numbers[2][0],
                                      s.numbers[3][0]);
                  },
                  "$0.slice(#0, #1, #2, #3)", 2};
  all["select"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() > 0; });
        if (x < 0)
          return {};
        int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
        return step({x}, {{dim}, {d.random.between(-n, n - 1)}});
      },
      [](const Tensors &a, const Step &s) { return a[0].select(s.numbers[0][0], s.numbers[1][0]); },
      "$0.select(#0, #1)"};
  all["split"] = {[](Draw &d) -> Drawn {
                    int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() > 0; });
                    if (x < 0)
                      return {};
                    int64_t dim = d.random.below(d[x].ndim()),
                            n = d[x].shape()[static_cast<size_t>(dim)];
                    int64_t size = d.random.between(1, n);
                    return step({x}, {{size}, {dim}, {d.random.below((n + size - 1) / size)}});
                  },
                  [](const Tensors &a, const Step &s) {
                    Tensors parts = split(a[0], s.numbers[0][0], s.numbers[1][0]);
                    size_t part = static_cast<size_t>(s.numbers[2][0]);
                    // A smaller input has fewer.
                    if (part >= parts.size())
                      throw Error(ErrorKind::kIndex, "split has no such part");
                    return parts[part];
                  },
                  "weft::split($0, #0, #1)[#2]", 0.5};
  all["flip"] = {[](Draw &d) -> Drawn {
                   int x = d.value(not_scalar);
                   if (x < 0)
                     return {};
                   Shape dims;
                   for (int64_t i = 0; i < d[x].ndim(); ++i)
                     if (d.random.chance(0.6))
                       dims.push_back(i);
                   return dims.empty() ? Drawn() : step({x}, {dims});
                 },
                 [](const Tensors &a, const Step &s) { return a[0].flip(s.numbers[0]); },
                 "$0.flip({#0})"};
  all["roll"] = {
      [](Draw &d) -> Drawn {
        int x = d.value(not_scalar);
        return x < 0 ? Drawn()
                     : step({x}, {{d.random.between(-3, 3)}, {d.random.below(d[x].ndim())}});
      },
      [](const Tensors &a, const Step &s) { return a[0].roll(s.numbers[0][0], s.numbers[1][0]); },
      "$0.roll(#0, #1)", 0.5};
  all["repeat"] = {
      [](Draw &d) -> Drawn {
        int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() < 2000; });
        if (x < 0)
          return {};
        Shape repeats;
        for (int64_t i = 0; i < d[x].ndim(); ++i)
          repeats.push_back(d.random.between(1, 2));
        return step({x}, {repeats});
      },
      [](const Tensors &a, const Step &s) { return a[0].repeat(s.numbers[0]); }, "$0.repeat({#0})",
      0.7};
  all["diagonal"] = {[](Draw &d) -> Drawn {
                       int x = d.value(matrix);
                       return x < 0 ? Drawn() : step({x}, {{d.random.between(-3, 3)}});
                     },
                     [](const Tensors &a, const Step &s) {
                       return a[0].diagonal(s.numbers[0][0]);
                     },
                     "$0.diagonal(#0)", 0.5};
  auto like = [](Draw &d, int x) {
    Shape shape = d[x].shape();
    DType dtype = d[x].dtype();
    return d.value([=](const Tensor &t) { return t.shape() == shape && t.dtype() == dtype; });
  };
  all["cat"] = {[like](Draw &d) -> Drawn {
                  int x = d.value([](const Tensor &t) { return t.ndim() > 0 && t.size() < 20000; });
                  if (x < 0)
                    return {};
                  return step({x, like(d, x), like(d, x)},
                              {{d.random.between(-d[x].ndim(), d[x].ndim() - 1)}});
                },
                [](const Tensors &a, const Step &s) { return cat(a, s.numbers[0][0]); },
                "weft::cat({$0, $1, $2}, #0)"};
  all["stack"] = {[like](Draw &d) -> Drawn {
                    int x =
                        d.value([](const Tensor &t) { return t.ndim() < 4 && t.size() < 20000; });
                    if (x < 0)
                      return {};
                    return step({x, like(d, x)}, {{d.random.between(0, d[x].ndim())}});
                  },
                  [](const Tensors &a, const Step &s) { return stack(a, s.numbers[0][0]); },
                  "weft::stack({$0, $1}, #0)", 0.5};
  for (bool upper : {false, true})
    all[upper ? "triu" : "tril"] = {
        [](Draw &d) -> Drawn {
          int x = d.value(matrix);
          return x < 0 ? Drawn() : step({x}, {{d.random.between(-2, 2)}});
        },
        [=](const Tensors &a, const Step &s) {
          return upper ? triu(a[0], s.numbers[0][0]) : tril(a[0], s.numbers[0][0]);
        },
        upper ? "weft::triu($0, #0)" : "weft::tril($0, #0)", 0.4};
}

void add_indexing(Calls &all) {
  auto with_rows = [](const Tensor &t) {
    return t.ndim() > 0 && t.size() > 0;
  };
  all["index_select"] = {
      [=](Draw &d) -> Drawn {
        int x = d.value(with_rows);
        if (x < 0)
          return {};
        int64_t dim = d.random.below(d[x].ndim());
        static const std::vector<Shape> shapes = {{}, {0}, {1}, {3}, {7}, {2, 3}};
        return step({x, d.indices(d.random.of(shapes), d[x].shape()[static_cast<size_t>(dim)])},
                    {{dim}});
      },
      [](const Tensors &a, const Step &s) { return index_select(a[0], s.numbers[0][0], a[1]); },
      "weft::index_select($0, #0, $1)"};
  all["index_add"] = {
      [=](Draw &d) -> Drawn {
        int x = d.value(both(numeric, with_rows));
        if (x < 0)
          return {};
        int64_t dim = d.random.below(d[x].ndim());
        Shape shape = d[x].shape();
        int64_t n = d.random.of(std::vector<int64_t>{0, 1, 3, 8});
        int64_t rows = std::exchange(shape[static_cast<size_t>(dim)], n);
        return step({x, d.indices({n}, rows), d.numbers(d[x].dtype(), shape, -2, 2)}, {{dim}});
      },
      [](const Tensors &a, const Step &s) { return index_add(a[0], s.numbers[0][0], a[1], a[2]); },
      "weft::index_add($0, #0, $1, $2)", 0.5};
  all["embedding"] = {[=](Draw &d) -> Drawn {
                        int x = d.value([](const Tensor &t) {
                          return floating(t) && t.ndim() == 2 && t.size() > 0;
                        });
                        if (x < 0)
                          return {};
                        static const std::vector<Shape> shapes = {{}, {1}, {5}, {2, 3}};
                        return step({d.indices(d.random.of(shapes), d[x].shape()[0]), x});
                      },
                      [](const Tensors &a, const Step &) { return embedding(a[0], a[1]); },
                      "weft::embedding($0, $1)", 0.5};
  all["gather"] = {
      [=](Draw &d) -> Drawn {
        int x = d.value(with_rows);
        if (x < 0)
          return {};
        int64_t dim = d.random.below(d[x].ndim());
        Shape shape = d[x].shape();
        int64_t n = std::exchange(shape[static_cast<size_t>(dim)],
                                  d.random.of(std::vector<int64_t>{0, 1, 3, 8}));
        return step({x, d.indices(shape, n)}, {{dim}});
      },
      [](const Tensors &a, const Step &s) { return gather(a[0], s.numbers[0][0], a[1]); },
      "weft::gather($0, #0, $1)"};
  all["scatter_add"] = {
      [=](Draw &d) -> Drawn {
        int x = d.value(both(numeric, with_rows));
        if (x < 0)
          return {};
        int64_t dim = d.random.below(d[x].ndim());
        Shape shape = d[x].shape();
        int64_t n = std::exchange(shape[static_cast<size_t>(dim)],
                                  d.random.of(std::vector<int64_t>{0, 1, 3, 8}));
        return step({x, d.indices(shape, n), d.numbers(d[x].dtype(), shape, -2, 2)}, {{dim}});
      },
      [](const Tensors &a, const Step &s) {
        return scatter_add(a[0], s.numbers[0][0], a[1], a[2]);
      },
      "weft::scatter_add($0, #0, $1, $2)"};
  all["scatter"] = {
      all["scatter_add"].draw,
      [](const Tensors &a, const Step &s) { return scatter(a[0], s.numbers[0][0], a[1], a[2]); },
      "weft::scatter($0, #0, $1, $2)", 0.7};
  all["scatter_reduce"] = {all["scatter_add"].draw,
                           [](const Tensors &a, const Step &s) {
                             return scatter_reduce(a[0], s.numbers[0][0], a[1], a[2], "amax");
                           },
                           "weft::scatter_reduce($0, #0, $1, $2, \"amax\")", 0.5};
  auto along = [=](Draw &d, bool counted) -> Drawn {
    int x = d.value(not_scalar);
    if (x < 0)
      return {};
    int64_t dim = d.random.below(d[x].ndim()), n = d[x].shape()[static_cast<size_t>(dim)];
    std::vector<std::vector<int64_t>> numbers = {{dim}, {d.random.below(2)}};
    if (counted)
      numbers.push_back({d.random.chance(0.5) ? std::min<int64_t>(n, d.random.below(4))
                                              : d.random.between(0, n)});
    return step({x}, numbers);
  };
  all["argsort"] = {[=](Draw &d) { return along(d, false); },
                    [](const Tensors &a, const Step &s) {
                      return argsort(a[0], s.numbers[0][0], s.numbers[1][0] != 0);
                    },
                    "weft::argsort($0, #0, #1)", 0.7};
  all["sort"] = {[=](Draw &d) { return along(d, false); },
                 [](const Tensors &a, const Step &s) {
                   return sort(a[0], s.numbers[0][0], s.numbers[1][0] != 0).first;
                 },
                 "weft::sort($0, #0, #1).first", 0.7};
  all["topk"] = {[=](Draw &d) { return along(d, true); },
                 [](const Tensors &a, const Step &s) {
                   return topk(a[0], s.numbers[2][0], s.numbers[0][0], s.numbers[1][0] != 0).first;
                 },
                 "weft::topk($0, #2, #0, #1).first", 0.7};
  all["one_hot"] = {[=](Draw &d) -> Drawn {
                      static const std::vector<Shape> shapes = {{}, {1}, {5}, {2, 3}};
                      return step({d.indices(d.random.of(shapes), 4)}, {{4}});
                    },
                    [](const Tensors &a, const Step &s) { return one_hot(a[0], s.numbers[0][0]); },
                    "weft::one_hot($0, #0)", 0.3};
}

void add_creation(Calls &all) {
  static const std::vector<Shape> shapes = {{}, {1}, {3}, {17}, {2, 3}, {0, 2}, {5, 1, 2}};
  all["arange"] = {
      [](Draw &d) -> Drawn { return step({}, {{d.random.of(std::vector<int64_t>{0, 1, 5, 17})}}); },
      [](const Tensors &, const Step &s) { return arange(s.numbers[0][0]); }, "weft::arange(#0)",
      0.3};
  all["full"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes), {a_scalar(d)}}); },
                 [](const Tensors &, const Step &s) { return full(s.numbers[0], scalar_of(s, 1)); },
                 "weft::full({#0}, %1)", 0.3};
  all["rand"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                 [](const Tensors &, const Step &s) { return rand(s.numbers[0]); },
                 "weft::rand({#0})", 0.3};
  all["randn"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                  [](const Tensors &, const Step &s) { return randn(s.numbers[0]); },
                  "weft::randn({#0})", 0.3};
  all["randint"] = {[](Draw &d) -> Drawn { return step({}, {d.random.of(shapes)}); },
                    [](const Tensors &, const Step &s) { return randint(-3, 9, s.numbers[0]); },
                    "weft::randint(-3, 9, {#0})", 0.2};
  all["dropout"] = {[](Draw &d) -> Drawn {
                      int x = d.value(floating);
                      return x < 0 ? Drawn() : step({x});
                    },
                    [](const Tensors &a, const Step &) { return dropout(a[0], 0.3); },
                    "weft::dropout($0, 0.3)", 0.6};
}

// Writes, evaluation and derivatives.
void add_effects(Calls &all) {
  using Member = Tensor &(Tensor::*)(TensorArg, Location);
  struct Write {
    const char *name;
    Member member;
  };
  for (Write w : {Write{"add_", &Tensor::add_},
                  {"sub_", &Tensor::sub_},
                  {"mul_", &Tensor::mul_},
                  {"copy_", &Tensor::copy_}})
    all[w.name] = {draw_write,
                   [=](const Tensors &a, const Step &) {
                     Tensor x = a[0];
                     (x.*w.member)(a[1], Location::current());
                     return x;
                   },
                   std::string("$0.") + w.name + "($1)", 1.2, true};
  all["fill_"] = {[](Draw &d) -> Drawn {
                    int x = d.value([](const Tensor &t) {
                      return numeric(t) && !(t.requires_grad() && t.is_leaf());
                    });
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
                   [](const Tensors &a, const Step &) { return a[0].detach(); }, "$0.detach()",
                   0.2};
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
                   GradOptions options{.create_graph = s.numbers[0][0] != 0,
                                       .retain_graph = true,
                                       .allow_unused = true};
                   return first_gradient(grad({sum(a[0])}, {a[1]}, options), a[1]);
                 },
                 "gradient(weft::sum($0), $1, #0)", 2.5};
  all["backward"] = {[](Draw &d) -> Drawn {
                       int y = d.value(has_history);
                       int x =
                           d.value([](const Tensor &t) { return has_history(t) && t.is_leaf(); });
                       return y < 0 || x < 0 ? Drawn() : step({y, x});
                     },
                     [](const Tensors &a, const Step &) {
                       sum(a[0]).backward({}, true);
                       return first_gradient({a[1].grad()}, a[1]);
                     },
                     "backward(weft::sum($0), $1)", 0.7};
}

} // namespace weft::fuzz
