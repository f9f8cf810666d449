// Batches of texts of many lengths, [4, n, 64]: the rows of all texts are what layers take, and
// attention, positions and means take them apart. How many programs are compiled, and that they
// compute what static ones compute, derivatives included.
#include <gtest/gtest.h>

#include <limits>

#include "frontend/tests/symbolic_fixture.h"

namespace weft {
namespace {

const std::vector<int64_t> kLengths = {70, 190, 33, 64, 17, 128};

class SymbolicBatches : public Symbolic {
protected:
  // Different numbers for each length.
  static Tensor batch(int64_t texts, int64_t length, const Shape &row, double seed) {
    Shape shape = {texts, length};
    shape.insert(shape.end(), row.begin(), row.end());
    return input(texts * length, row, seed + double(length)).reshape(shape).eval();
  }
  static Tensor leaf(const Tensor &x) {
    Tensor made = x.detach();
    made.eval();
    return made.set_requires_grad();
  }
  static Tensor heads(const Tensor &x, int64_t count) {
    return x.reshape({x.size(0), x.size(1), count, -1}).transpose(1, 2);
  }
  static Tensor joined(const Tensor &x) {
    return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
  }
};

TEST_F(SymbolicBatches, RowsOneByOne) {
  nn::Linear layer(24, 40);
  nn::LayerNorm norm(40);
  eval(layer.parameters());
  eval(norm.parameters());
  NoGrad no_grad;
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = batch(4, n, {24}, 1), y = norm(gelu(layer(x)));
    Tensor parts = cat({y.slice(2, 0, 8), softmax(y.slice(2, 8, 40), 2) * 3.0}, 2);
    Tensor best = argmax(parts, 2);
    Tensor some = index_select(parts, 2, tensor<int64_t>({7, 0, 39, 3}));
    Generator generator(7);
    Tensor dropped = dropout(y, 0.3, true, generator);
    return std::vector<Tensor>{parts, best, gather(parts, 2, best.unsqueeze(2)) + 1.0, some * 2.0,
                               dropped,
                               y.sum(), y.mean(), y.amax(2), (x * x).sum({0, 1}),
                               y.reshape({4, n, 5, 8}).transpose(2, 3).reshape({4, n, 40}) * 2.0};
  });
}

TEST_F(SymbolicBatches, TextsThatVaryAsWell) {
  NoGrad no_grad;
  int64_t step = 0;
  compare({70, 190, 33, 64, 129, 96}, 4, [&](int64_t n) {
    Tensor x = batch(2 + (step++ % 6) % 5, n, {24}, 2);
    return std::vector<Tensor>{tanh(x) * 2.0, softmax(x, 2).sum(2)};
  });
}

// Lengths, and as many texts as there is room for.
class SymbolicBudgets : public SymbolicBatches {
protected:
  // f(number of texts, length), with the derivatives that it gives.
  void compare_budgets(int64_t most_compiles,
                       const std::function<std::vector<Tensor>(int64_t, int64_t)> &f) {
    compare({70, 190, 33, 64, 129, 96, 48}, most_compiles,
            [&](int64_t n) { return f(400 / n, n); });
  }
};

TEST_F(SymbolicBudgets, Attention) {
  for (bool causal : {false, true})
    compare_budgets(4, [&](int64_t texts, int64_t n) {
      Tensor q = leaf(batch(texts, n, {32}, 30)), k = leaf(batch(texts, n, {32}, 31)),
             v = leaf(batch(texts, n, {32}, 32));
      Tensor y = joined(attention(heads(tanh(q), 4), heads(k * 0.5, 4), heads(v, 4), {},
                                  {.causal = causal, .scale = {}}));
      std::vector<Tensor> results = grad({(y * y).sum()}, {q, k, v});
      results.push_back(y.detach());
      return results;
    });
}

TEST_F(SymbolicBudgets, AttentionBetweenTwoLengthsWithMasks) {
  for (DType dtype : {float32, bfloat16})
    compare_budgets(4, [&](int64_t texts, int64_t n) {
      int64_t m = 19 + n * 7 % 131;
      Tensor q = leaf(batch(texts, n, {32}, 33).to(dtype)),
             k = leaf(batch(texts, m, {32}, 34).to(dtype));
      Tensor counts = (batch(texts, m, {}, 35) > -1.0).reshape({texts, 1, 1, m});
      Tensor y = joined(attention(heads(q, 4), heads(k, 4), heads(k * 2.0, 4), counts));
      return grad({(y * y).to(float32).sum()}, {q, k});
    });
}

TEST_F(SymbolicBudgets, MasksOfQueriesAndKeys) {
  compare_budgets(4, [&](int64_t texts, int64_t n) {
    Tensor x = leaf(batch(texts, n, {32}, 36));
    Tensor counts = (batch(texts, n, {}, 37) > -1.0).reshape({texts, 1, 1, n}).eval();
    Tensor order = arange(n).unsqueeze(1) >= arange(n);
    Tensor h = heads(x, 4), y = joined(attention(h, h, h + 1.0, counts & order));
    return grad({(y * y).sum()}, {x});
  });
}

TEST_F(SymbolicBudgets, PlacesAndTexts) {
  NoGrad no_grad;
  Tensor table = rows(300, {24}, 38);
  compare_budgets(4, [&](int64_t texts, int64_t n) {
    Tensor x = batch(texts, n, {24}, 39), one = rows(texts, {24}, 40).reshape({texts, 1, 24});
    Tensor y = x + table.slice(0, 0, n), z = x * one + 1.0;
    return std::vector<Tensor>{y * 2.0, z, y.select(1, 0) * 3.0, y.slice(1, 1, 12, 3) + 1.0};
  });
  // As many texts as places; and as many as sums are cut into blocks for.
  compare({20, 34, 27}, 3, [&](int64_t n) {
    Tensor x = batch(n, 2 * n + 1, {}, 44);
    return std::vector<Tensor>{x.unsqueeze(1) - x.unsqueeze(0)};
  });
  compare({30, 17, 23}, 3, [&](int64_t n) {
    Tensor x = batch(2400 / n, n, {8}, 45);
    return std::vector<Tensor>{x.sum(0), x.sum(1)};
  });
  // What is taken by indices is checked against the places that there are.
  for (int64_t n : {20, 34, 27, 31}) {
    Tensor x = rows(n, {3}, 46).eval(), at = arange(n).eval();
    Tensor last = tensor<int64_t>({-1, 0}).eval();
    Tensor some = x.index_select(0, (at - 1).eval()).index_select(0, last).narrow(0, 0, 1);
    EXPECT_EQ(some.to_vector<float>(), x.narrow(0, n - 2, 1).to_vector<float>());
    Tensor beyond = (at + 1).eval();
    EXPECT_THROW(x.index_select(0, beyond).narrow(0, n - 3, 3).to_vector<float>(), Error);
  }
  // What all texts have at a place, and what a text has at all places.
  compare_budgets(4, [&](int64_t texts, int64_t n) {
    Tensor x = batch(texts, n, {24}, 41);
    return std::vector<Tensor>{x.sum(0),  (-x).to(bfloat16).sum(0), x.amax(0), x.sum(1),
                               x.amin(1), (x * 0.0).sum(0)};
  });
  compare_budgets(4, [&](int64_t texts, int64_t n) {
    return std::vector<Tensor>{tanh(batch(texts, n, {24}, 42)).amax(1)};
  });
  // Means of what counts, which a mask [texts, n] says.
  compare_budgets(4, [&](int64_t texts, int64_t n) {
    Tensor x = batch(texts, n, {24}, 43), lengths = (arange(texts) * 7 % n + 1).unsqueeze(1);
    Tensor counts = (arange(n) < lengths).to(float32);
    return std::vector<Tensor>{(x * counts.unsqueeze(2)).sum(1) / counts.sum(1).unsqueeze(1)};
  });
}

// A server's batches: as many texts as wait, of any length. Of both sizes, which rows along places
// do not leave open together, the one of more values varies, though some lengths were met at two
// batches.
TEST_F(SymbolicBatches, TextsAndLengthsOfAServer) {
  NoGrad no_grad;
  auto answer = [&](int64_t texts, int64_t length) {
    Tensor x = batch(texts, length, {24}, 8);
    Tensor y = softmax(x.sum(2), 1);
    y.eval();
    ASSERT_EQ(y.shape(), (Shape{texts, length}));
  };
  for (auto [texts, length] : {std::pair<int64_t, int64_t>{2, 33}, {5, 46}, {3, 60}, {7, 57},
                               {4, 60}, {6, 54}, {7, 54}})
    answer(texts, length);
  for (int64_t texts : {3, 5, 8}) {
    uint64_t before = compiles();
    for (int64_t length = 20; length < 64; length += 3)
      answer(texts, length);
    if (has_sizes())
      EXPECT_LE(compiles() - before, 4u) << texts << ": " << last().to_string();
  }
}

TEST_F(SymbolicBatches, Attention) {
  NoGrad no_grad;
  for (bool causal : {false, true})
    compare(kLengths, 3, [&](int64_t n) {
      Tensor q = batch(3, n, {64}, 3), k = batch(3, n, {32}, 4), v = batch(3, n, {32}, 5);
      AttentionOptions options{.causal = causal, .scale = {}, .grouped = true};
      return std::vector<Tensor>{
          joined(attention(heads(q, 4), heads(k, 2), heads(v, 2), {}, options))};
    });
}

TEST_F(SymbolicBatches, AttentionWithMasks) {
  NoGrad no_grad;
  for (bool added : {false, true})
    compare(kLengths, 3, [&](int64_t n) {
      Tensor x = batch(3, n, {32}, 6), counts = (batch(3, n, {}, 7) > -1.0).reshape({3, 1, 1, n});
      Tensor mask = added ? where(counts, 0.0, -1e4) : counts;
      return std::vector<Tensor>{joined(attention(heads(x, 2), heads(x, 2), heads(x, 2), mask))};
    });
}

// Few matrices: the keys are cut into parts, more of them the longer the text is.
TEST_F(SymbolicBatches, DerivativesOfAttention) {
  for (int64_t texts : {1, 4})
    for (bool causal : {false, true})
      compare({70, 190, 33, 64}, 3, [&](int64_t n) {
        Tensor q = leaf(batch(texts, n, {32}, 8)), k = leaf(batch(texts, n, {32}, 9)),
               v = leaf(batch(texts, n, {32}, 10)), weight = batch(texts, n, {32}, 11);
        Tensor y = joined(attention(heads(q, 2), heads(k, 2), heads(v, 2), {},
                                    {.causal = causal, .scale = {}}));
        return grad({(y * weight).sum()}, {q, k, v});
      });
}

TEST_F(SymbolicBatches, DerivativesOfAttentionWithMasks) {
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {32}, 12)),
           counts = (batch(4, n, {}, 13) > -1.0).reshape({4, 1, 1, n}).eval();
    Tensor h = heads(x, 4), y = joined(attention(h, h * 0.5, h + 1.0, counts));
    return grad({(y * y).sum()}, {x});
  });
  // Places that are turned into each head's features.
  compare({70, 130, 33}, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {32}, 20)), at = batch(1, n, {8}, 21).reshape({n, 8});
    Tensor h = heads(x, 4), half = cat({-h.slice(3, 4, 8), h.slice(3, 0, 4)}, 3),
           turned = h * cos(at) + half * sin(at), y = joined(attention(turned, turned, h));
    return grad({(y * y).sum()}, {x});
  });
  // In 16 bits sums are kept in scratch.
  compare({70, 130, 33}, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {32}, 14).to(bfloat16));
    Tensor h = heads(x, 2), y = joined(attention(h, h, h));
    return grad({(y * y).to(float32).sum()}, {x});
  });
}

// Queries of one length and keys of another: what is written reads what it is a translation of.
TEST_F(SymbolicBatches, AttentionBetweenTwoLengths) {
  auto other = [](int64_t n) {
    return 19 + n * 7 % 131;
  };
  for (bool causal : {false, true})
    compare(kLengths, 3, [&](int64_t n) {
      NoGrad no_grad;
      int64_t m = other(n);
      Tensor q = batch(3, n, {64}, 23), k = batch(3, m, {32}, 24), v = batch(3, m, {32}, 25);
      Tensor counts = (batch(3, m, {}, 26) > -1.0).reshape({3, 1, 1, m}).eval();
      AttentionOptions options{.causal = causal, .scale = {}, .grouped = true};
      return std::vector<Tensor>{
          joined(attention(heads(q, 4), heads(k, 2), heads(v, 2), counts, options))};
    });
  // Few matrices: the keys are cut into parts, as many as their number says.
  for (int64_t texts : {1, 4})
    compare({70, 190, 33}, 3, [&](int64_t n) {
      DType dtype = texts == 1 ? float32 : bfloat16;
      int64_t m = other(n);
      Tensor q = leaf(batch(texts, n, {32}, 27).to(dtype)),
             k = leaf(batch(texts, m, {32}, 28).to(dtype)),
             v = leaf(batch(texts, m, {32}, 29).to(dtype));
      Tensor y = joined(attention(heads(tanh(q), 2), heads(k * 0.5, 2), heads(v, 2)));
      return grad({(y * y).to(float32).sum()}, {q, k, v});
    });
}

// With a row for each query and a column for each key, in the ways in which programs make them.
TEST_F(SymbolicBatches, MasksOfQueriesAndKeys) {
  Tensor table = tril(ones({1, 1, 300, 300}, boolean)).eval();
  double hidden = -std::numeric_limits<double>::infinity();
  using Mask = std::function<Tensor(int64_t, const Tensor &)>; // of the keys that count
  const std::vector<Mask> masks = {
      [](int64_t n, const Tensor &) {
        return tril(ones({n, n}, boolean));
      },
      [](int64_t n, const Tensor &) { return arange(n).unsqueeze(1) >= arange(n); },
      [&](int64_t n, const Tensor &) {
        return triu(full({n, n}, hidden), 1);
      },
      [&](int64_t n, const Tensor &) { return table.slice(2, 0, n).slice(3, 0, n); },
      [](int64_t n, const Tensor &counts) {
        return logical_and(tril(ones({n, n}, boolean)), counts);
      },
      [](int64_t n, const Tensor &counts) {
        return where(tril(ones({n, n}, boolean)), 0.0, -1e9) + where(counts, 0.0, -1e9);
      },
      [](int64_t, const Tensor &counts) { return logical_and(counts, counts.transpose(2, 3)); },
      [](int64_t n, const Tensor &) {
        return (batch(3, n, {n}, 32) > -1.0).unsqueeze(1).eval();
      }};
  auto made = [](const Mask &mask, int64_t n) {
    return mask(n, (batch(3, n, {}, 34) > -1.0).reshape({3, 1, 1, n}).eval());
  };
  auto attended = [](const Tensor &x, const Tensor &mask) {
    Tensor h = heads(x, 2);
    return joined(attention(h, h, h, mask));
  };
  for (const Mask &mask : masks)
    compare({70, 100, 33}, 3, [&](int64_t n) {
      NoGrad no_grad;
      Tensor whole = made(mask, n);
      return std::vector<Tensor>{attended(batch(3, n, {32}, 33), whole), whole};
    });
  compare({70, 130, 33}, 3, [&](int64_t n) {
    Tensor x = leaf(batch(3, n, {32}, 33)), y = attended(x, made(masks[5], n));
    return grad({(y * y).sum()}, {x});
  });
}

// What is the same for all texts, or at all places.
TEST_F(SymbolicBatches, PlacesAndTexts) {
  Tensor table = input(300, {24}, 15), kinds = input(4, {24}, 16);
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {24}, 17)), at = leaf(table.slice(0, 0, n)), of = leaf(kinds);
    Tensor y = tanh(x + at + of.unsqueeze(1));
    std::vector<Tensor> results = grad({(y * y).sum()}, {x, at, of});
    for (const Tensor &more : {y, y.mean(0), y.mean(1), y.sum(1), y.amax(1), y.amin(0)})
      results.push_back(more.detach());
    return results;
  });
}

// A mask's ones, which are the same number in any order.
TEST_F(SymbolicBatches, MeansOfWhatCounts) {
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {24}, 30)), counts = (batch(4, n, {}, 31) > -1.0).eval();
    Tensor weights = counts.to(float32), columns = counts.unsqueeze(2).to(bfloat16);
    Tensor mean = (tanh(x) * weights.unsqueeze(2)).sum(1) / weights.sum(1, true);
    std::vector<Tensor> results = grad({(mean * mean).sum()}, {x});
    for (const Tensor &more : {mean.detach(), columns.sum(1), counts.sum(1), weights.sum(0)})
      results.push_back(more);
    return results;
  });
}

// A product with one matrix, as a layer that is written by hand has it; a table of positions that is
// a parameter; and the first place of a single text. With derivatives.
TEST_F(SymbolicBatches, ProductsAndTables) {
  Tensor weight = leaf(input(24, {40}, 39)), table = leaf(input(300, {24}, 40));
  for (int64_t texts : {1, 4})
    compare({70, 190, 33}, 3, [&](int64_t n) {
      Tensor x = leaf(batch(texts, n, {24}, 41)), y = matmul(x + table.slice(0, 0, n), weight);
      return grad({(y * y).sum() + y.select(1, 0).sum()}, {x, weight, table});
    });
}

// Along the places of each text, what each place has one number of.
TEST_F(SymbolicBatches, AlongPlaces) {
  const std::vector<int64_t> lengths = {70, 1900, 33, 64, 1024, 1300, 17};
  compare(lengths, 4, [&](int64_t n) {
    Tensor x = batch(4, n, {}, 35), counts = x > -1.0;
    return std::vector<Tensor>{x.sum(1),      (x * counts.to(float32)).sum(1),
                               x.amax(1),     x.mean(1),
                               softmax(x, 1), log_softmax(x * 2.0, 1),
                               x.std(1),      (x.sum(1) / counts.to(float32).sum(1)).mean()};
  });
  compare({70, 190, 33}, 3, [&](int64_t n) {
    Tensor x = batch(3, n, {2}, 36).transpose(1, 2).contiguous().eval();
    return std::vector<Tensor>{softmax(x, 2), x.sum(2), x.unsqueeze(3).sum(2)};
  });
  // Pooling by weights that are learned.
  compare({70, 190, 33}, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {24}, 37)), y = tanh(x), scores = y.sum(2);
    Tensor counts = (batch(4, n, {}, 38) > -1.0).eval();
    Tensor weights = softmax(where(counts, scores, -1e9), 1);
    Tensor pooled = (weights.unsqueeze(2) * y).sum(1);
    return grad({(pooled * pooled).sum()}, {x});
  });
}

TEST_F(SymbolicBatches, SomePlaces) {
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = batch(4, n, {24}, 18), y = tanh(x);
    return std::vector<Tensor>{y.select(1, 0) * 2.0, y.slice(1, 1, 12, 3) + 1.0};
  });
  // And its derivative.
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = leaf(batch(4, n, {24}, 22)), first = tanh(x).select(1, 0);
    return grad({(first * first).sum()}, {x});
  });
  // What comes next.
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = batch(4, n + 1, {24}, 19);
    return std::vector<Tensor>{x.slice(1, 0, n) * x.slice(1, 1, n + 1)};
  });
}

// A step of training, all of it.
TEST_F(SymbolicBatches, Training) {
  struct Net : nn::Module {
    nn::Embedding words{50, 32}, places{200, 32};
    nn::TransformerBlock block{32, 4, {.causal = true}};
    nn::Linear out{32, 50};
    Net() {
      child("words", words);
      child("places", places);
      child("block", block);
      child("out", out);
    }
    Tensor operator()(const Tensor &ids) const {
      return out(block(words(ids) + places(arange(ids.size(1)))));
    }
  };
  for (int64_t budget : {0, 1, 4}) { // 0: fewer texts where they are longer
    Net net;
    eval(net.parameters());
    compare({70, 130, 33, 100}, 3, [&](int64_t n) {
      int64_t texts = budget > 0 ? budget : 400 / n;
      Tensor ids = ((arange(texts * n) * 7 + n) % 50).reshape({texts, n}).eval(),
             next = ((arange(texts * n) * 11 + n) % 50).reshape({texts, n}).eval();
      Tensor loss = cross_entropy(net(ids), next);
      std::vector<Tensor> results = grad({loss}, net.parameters());
      results.push_back(loss.detach());
      return results;
    });
  }
}

// Most of a tensor is written, as many rows at a time as there are, each time from another place.
TEST_F(SymbolicBatches, WritesOfManySizesAtManyPlaces) {
  compare({20, 31, 17, 40, 25, 33, 48}, 4, [](int64_t n) {
    Tensor base = rows(50, {8}, 1).eval(), part = input(n, {8}, 2);
    part.requires_grad_();
    Tensor x = base * 2;
    x.narrow(0, (n * 7) % (50 - n), n) = part * 3;
    return std::vector<Tensor>{x, grad({(x * x).sum()}, {part})[0]};
  });
}

// A ring: what does not fit at its end goes on at its beginning.
TEST_F(SymbolicBatches, WritesAroundTheEndOfARing) {
  int64_t at = 0;
  Tensor ring = zeros({50, 6}).eval();
  std::vector<float> expected(50 * 6);
  for (int64_t n : {30, 21, 44, 17, 38, 29, 33, 46, 25, 41}) {
    Tensor batch = input(n, {6}, double(n));
    std::vector<float> values = batch.to_vector<float>();
    int64_t first = std::min(n, 50 - at);
    ring.narrow(0, at, first) = batch.narrow(0, 0, first);
    if (first < n)
      ring.narrow(0, 0, n - first) = batch.narrow(0, first, n - first);
    for (int64_t i = 0; i < n * 6; ++i)
      expected[static_cast<size_t>((at * 6 + i) % (50 * 6))] = values[static_cast<size_t>(i)];
    ASSERT_EQ(ring.to_vector<float>(), expected) << n << " rows at " << at;
    at = (at + n) % 50;
  }
}

// No tensor in memory has the size that varies.
TEST_F(SymbolicBatches, PartsFromOneTensorToAnother) {
  Tensor from = rows(16, {8}, 1).eval();
  compare({3, 5, 7, 8, 11, 2, 13}, 3, [&](int64_t n) {
    Tensor to = rows(50, {8}, 2).eval();
    to.narrow(0, 10, n) = from.narrow(0, 0, n);
    return std::vector<Tensor>{to};
  });
}

} // namespace
} // namespace weft
