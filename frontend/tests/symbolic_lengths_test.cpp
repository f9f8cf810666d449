// Texts of many lengths: the tokens of one text are the rows of what its layers compute, and both
// the queries and the keys of attention. How many programs are compiled, and that they compute what
// static ones compute.
#include <gtest/gtest.h>

#include "frontend/tests/symbolic_fixture.h"
#include "weft/models/models.h"

namespace weft {
namespace {

constexpr int64_t kSize = 64, kHeads = 4;
// Whole blocks of attention and parts of such, in keys that are cut into blocks of several lengths.
const std::vector<int64_t> kLengths = {70, 190, 33, 64, 17, 129, 128, 96, 31};

class SymbolicLengths : public Symbolic {
protected:
  static Tensor heads(const Tensor &x) {
    return x.reshape({1, x.size(1), kHeads, -1}).transpose(1, 2);
  }
  static Tensor tokens(int64_t length) {
    return ((arange(length) * 7) % 50).reshape({1, length}).eval();
  }
  static Tensor text(int64_t length, int64_t size, double seed) {
    return input(length, {size}, seed).reshape({1, length, size}).eval();
  }
  static models::Gpt2 gpt2() {
    models::Gpt2Config config;
    config.vocabulary = 50, config.positions = 200, config.size = 64, config.layers = 1;
    config.heads = kHeads;
    models::Gpt2 model(config);
    model.eval();
    return model;
  }
  static std::string reason(const std::function<Tensor(int64_t)> &f) {
    for (int64_t length : {40, 60})
      f(length).eval();
    return last().not_symbolic;
  }
  static void expect(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
};

TEST_F(SymbolicLengths, AttentionOfAText) {
  NoGrad no_grad;
  for (bool causal : {false, true})
    compare(kLengths, 3, [&](int64_t n) {
      Tensor q = text(n, kSize, 1), k = text(n, kSize, 2), v = text(n, kSize, 3);
      Tensor seen = attention(heads(q), heads(k), heads(v), {}, {.causal = causal, .scale = {}});
      return std::vector<Tensor>{seen.transpose(1, 2).reshape({1, n, kSize})};
    });
}

TEST_F(SymbolicLengths, MasksOfKeys) {
  NoGrad no_grad;
  compare(kLengths, 3, [&](int64_t n) {
    Tensor q = text(n, kSize, 4);
    Tensor counts = (input(n, {}, 5) > -1.0).reshape({1, 1, 1, n}).eval();
    Tensor seen = attention(heads(q), heads(q), heads(q), counts);
    return std::vector<Tensor>{seen.transpose(1, 2).reshape({1, n, kSize})};
  });
}

TEST_F(SymbolicLengths, MasksOfQueriesAndKeys) {
  NoGrad no_grad;
  for (bool made_before : {false, true})
    compare({70, 190, 33}, 3, [&](int64_t n) {
      Tensor x = heads(text(n, kSize, 12)), mask = tril(ones({n, n}, boolean));
      if (made_before)
        mask.eval();
      return std::vector<Tensor>{attention(x, x, x, mask).transpose(1, 2).reshape({1, n, kSize}),
                                 mask};
    });
}

// A cache has room for as many keys as it has, whatever the queries are.
TEST_F(SymbolicLengths, QueriesAlone) {
  NoGrad no_grad;
  Tensor k = text(200, kSize, 6), v = text(200, kSize, 7);
  for (bool causal : {false, true})
    compare(kLengths, 3, [&](int64_t n) {
      Tensor counts = input(n, {200}, 8) > -1.0;
      Tensor seen = attention(heads(text(n, kSize, 9)), heads(k), heads(v), counts,
                              {.causal = causal, .scale = {}});
      return std::vector<Tensor>{seen.transpose(1, 2).reshape({1, n, kSize})};
    });
}

TEST_F(SymbolicLengths, Bert) {
  models::Bert model({.vocabulary = 50, .positions = 200, .size = 64, .hidden = 64, .layers = 1,
                      .heads = kHeads});
  model.eval();
  for (bool masked : {false, true})
    compare({70, 130, 33, 64, 17, 129, 100}, 2, [&](int64_t n) {
      NoGrad no_grad;
      Tensor mask = masked ? (arange(n) < n - 3).reshape({1, n}).eval() : Tensor();
      auto [vectors, pooled] = model(tokens(n), {}, mask);
      return std::vector<Tensor>{vectors, pooled, vectors.mean(1)};
    });
}

TEST_F(SymbolicLengths, PromptsOfGpt2) {
  models::Gpt2 model = gpt2();
  // One more where weights that are read again and again are prepared.
  compare({70, 130, 33, 64, 17, 129, 100}, 3, [&](int64_t n) {
    NoGrad no_grad;
    return std::vector<Tensor>{model(tokens(n))};
  });
  // What comes next is asked of the last token.
  compare({70, 130, 33, 64, 17, 129, 100}, 3, [&](int64_t n) {
    NoGrad no_grad;
    return std::vector<Tensor>{model(tokens(n)).select(1, n - 1)};
  });
}

// A prompt's keys and values go into a cache, whose next token sees them.
TEST_F(SymbolicLengths, PromptsThatFillACache) {
  models::Gpt2 model = gpt2();
  auto prompt = [&](const nn::KeyValueCache &cache, int64_t n) {
    NoGrad no_grad;
    return model(tokens(n), cache).select(1, n - 1);
  };
  compare({70, 130, 33, 64, 17, 129, 100}, 3, [&](int64_t n) {
    return std::vector<Tensor>{prompt(model.make_cache(1, 200), n)};
  });
  compare({70, 130, 33, 64, 17, 129, 100}, 3, [&](int64_t n) {
    nn::KeyValueCache cache = model.make_cache(1, 200);
    prompt(cache, n).eval();
    return std::vector<Tensor>{prompt(cache, 1)};
  });
}

// As many rows of a table as there are tokens, and rows of all tokens that are there at any length.
TEST_F(SymbolicLengths, RowsOfTablesAndTexts) {
  Tensor table = input(300, {24}, 10);
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = text(n, 24, 11), y = tanh(x) * 2.0 + table.slice(0, 0, n) + table.slice(0, 3, n + 3);
    return std::vector<Tensor>{y, y.select(1, n - 1) * 3.0, y.slice(1, 2, 11, 3) + 1.0,
                               table.slice(0, n, n + 5)};
  });
}

// The gradient of a table of words adds as many rows as the text has tokens, in their order.
TEST_F(SymbolicLengths, WordsInTraining) {
  Tensor words = input(50, {24}, 16), places = input(200, {24}, 17), weight = input(50, {24}, 18);
  for (Tensor *each : {&words, &places, &weight})
    each->set_requires_grad();
  compare(kLengths, 3, [&](int64_t n) {
    Tensor x = embedding(tokens(n), words) + embedding(arange(n).reshape({1, n}), places);
    Tensor loss = cross_entropy(linear(tanh(x), weight), tokens(n));
    return grad({loss}, {words, places, weight});
  });
}

// Each token but the last says which one comes next.
TEST_F(SymbolicLengths, NextTokensInTraining) {
  Tensor words = input(50, {24}, 19), weight = input(50, {24}, 20);
  for (Tensor *each : {&words, &weight})
    each->set_requires_grad();
  compare(kLengths, 3, [&](int64_t n) {
    Tensor ids = tokens(n), x = embedding(ids.narrow(1, 0, n - 1), words);
    Tensor loss = cross_entropy(linear(tanh(x), weight), ids.narrow(1, 1, n - 1));
    return grad({loss}, {words, weight});
  });
}

TEST_F(SymbolicLengths, WhatDoesNotVarySaysSo) {
  if (!has_sizes())
    return;
  NoGrad no_grad;
  // Along the places of a batch.
  expect(reason([&](int64_t n) { return cumsum(input(4, {n, 8}, 13), 1); }),
         "weft.cumsum: a size that varies is not that of the leading dimension of [4, s0, 8], whose "
         "rows it does not take one by one");
  expect(reason([&](int64_t n) { return tanh(text(n, 24, 14)).flip({1}) * 2.0; }),
         "weft.slice takes a part of a dimension whose size varies");
}

// What a user's indices choose from such a dim is checked against the size that it has.
TEST_F(SymbolicLengths, IndicesAreChecked) {
  Tensor at = (zeros({3}, int64) + 50).eval();
  for (int64_t n : {60, 100, 80, 51})
    EXPECT_EQ(index_select(text(n, 8, 15), 1, at).to_vector<float>().size(), 24u);
  EXPECT_THROW(index_select(text(50, 8, 15), 1, at).to_vector<float>(), Error);
}

} // namespace
} // namespace weft
