#include <gtest/gtest.h>

#include "tests/support/compiles.h"
#include "tests/support/errors.h"
#include "weft/models/gpt2.h"
#include "weft/weft.h"

namespace weft::nn {
namespace {

using testing_support::message_of;

// Queries, keys and values of T tokens.
struct Tokens {
  Tensor query, key, value;

  static Tokens random(int64_t batch, int64_t heads, int64_t key_heads, int64_t count) {
    return {randn({batch, heads, count, 4}), randn({batch, key_heads, count, 4}),
            randn({batch, key_heads, count, 4})};
  }
  Tokens part(int64_t start, int64_t count) const {
    return {query.narrow(2, start, count), key.narrow(2, start, count),
            value.narrow(2, start, count)};
  }
  Tokens row(int64_t row) const {
    return {query.narrow(0, row, 1), key.narrow(0, row, 1), value.narrow(0, row, 1)};
  }
};

// What no cache computes: all of them at once.
Tensor whole(const Tokens &tokens) {
  int64_t group = tokens.query.size(1) / tokens.key.size(1);
  return attention(tokens.query, repeat_interleave(tokens.key, group, 1),
                   repeat_interleave(tokens.value, group, 1), Tensor(),
                   {.causal = true, .scale = {}});
}

Tensor take(const KeyValueCache &cache, const Tokens &tokens, int64_t layer = 0) {
  NoGrad no_grad;
  int64_t count = tokens.query.size(2);
  return cache.attend(layer, cache.next(count), tokens.query, tokens.key, tokens.value);
}

void expect_near(const Tensor &given, const Tensor &expected) {
  ASSERT_EQ(given.shape(), expected.shape());
  std::vector<float> a = given.to_vector<float>(), b = expected.to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-5) << i;
}

TEST(KeyValueCache, PartsGiveWhatTheWholeGives) {
  manual_seed(1);
  for (int64_t key_heads : {6, 3, 1}) {
    Tokens tokens = Tokens::random(2, 6, key_heads, 11);
    KeyValueCache cache({.layers = 1, .batch = 2, .heads = key_heads, .size = 4, .capacity = 13});
    std::vector<Tensor> parts;
    int64_t at = 0;
    for (int64_t count : {5, 1, 1, 3, 1}) {
      parts.push_back(take(cache, tokens.part(at, count)));
      at += count;
    }
    expect_near(cat(parts, 2), whole(tokens));
    EXPECT_EQ(cache.lengths().to_vector<int64_t>(), (std::vector<int64_t>{11, 11}));
  }
}

TEST(KeyValueCache, TextsOfDifferentLengthsAreEachAsAlone) {
  manual_seed(2);
  Tokens tokens = Tokens::random(2, 2, 2, 9);
  KeyValueCache cache({.layers = 1, .batch = 2, .heads = 2, .size = 4, .capacity = 9});
  // The first text begins with 6 tokens, the second with 2; its other 4 are nobody's.
  take(cache, tokens.part(0, 6));
  cache.set_lengths({6, 2});
  // Their next 3.
  Tokens next = {
      cat({tokens.row(0).query.narrow(2, 6, 3), tokens.row(1).query.narrow(2, 2, 3)}, 0),
      cat({tokens.row(0).key.narrow(2, 6, 3), tokens.row(1).key.narrow(2, 2, 3)}, 0),
      cat({tokens.row(0).value.narrow(2, 6, 3), tokens.row(1).value.narrow(2, 2, 3)}, 0)};
  std::vector<Tensor> steps;
  for (int64_t i = 0; i < 3; ++i)
    steps.push_back(take(cache, next.part(i, 1)));
  Tensor seen = cat(steps, 2);
  expect_near(seen.narrow(0, 0, 1), whole(tokens.row(0)).narrow(2, 6, 3));
  expect_near(seen.narrow(0, 1, 1), whole(tokens.row(1).part(0, 5)).narrow(2, 2, 3));
  EXPECT_EQ(cache.lengths().to_vector<int64_t>(), (std::vector<int64_t>{9, 5}));
}

TEST(KeyValueCache, LayersAreApart) {
  manual_seed(3);
  Tokens first = Tokens::random(1, 2, 2, 3), second = Tokens::random(1, 2, 2, 3);
  KeyValueCache cache({.layers = 2, .heads = 2, .size = 4, .capacity = 3});
  KeyValueCache::Places places = cache.next(3);
  NoGrad no_grad;
  Tensor a = cache.attend(0, places, first.query, first.key, first.value);
  Tensor b = cache.attend(1, places, second.query, second.key, second.value);
  expect_near(a, whole(first));
  expect_near(b, whole(second));
}

TEST(KeyValueCache, AllStepsAreOneProgram) {
  manual_seed(4);
  Tokens tokens = Tokens::random(1, 2, 2, 40);
  eval({tokens.query, tokens.key, tokens.value});
  KeyValueCache cache({.layers = 1, .heads = 2, .size = 4, .capacity = 64});
  auto step = jit([cache](const Tensor &q, const Tensor &k, const Tensor &v) {
    return cache.attend(0, cache.next(1), q, k, v);
  });
  NoGrad no_grad;
  std::vector<Tokens> each;
  for (int64_t i = 0; i < 40; ++i) {
    Tokens part = tokens.part(i, 1);
    each.push_back({part.query + 0.0, part.key + 0.0, part.value + 0.0});
    eval({each.back().query, each.back().key, each.back().value});
  }
  tests::Compiles compiles;
  const void *memory = nullptr;
  std::vector<float> given;
  for (const Tokens &one : each) {
    Tensor seen = step(one.query, one.key, one.value); // [1, 2, 1, 4]
    seen.eval();
    // The values': the first write of a program checks the rows for all, and what checks writes
    // memory of its own, so that a bad row costs nothing.
    const void *now = cache.state()[2].second.data<float>();
    if (config().backend == "cpu") // the interpreter makes all its results anew
      EXPECT_TRUE(memory == nullptr || memory == now) << "written where it stands";
    memory = now;
    std::vector<float> values = seen.to_vector<float>();
    given.insert(given.end(), values.begin(), values.end());
  }
  EXPECT_EQ(compiles.count(), 1u);
  expect_near(Tensor::from(given, {40, 2, 4}).transpose(0, 1).unsqueeze(0), whole(tokens));
}

// A server has a cache for each session, and one jitted step for all of them.
TEST(KeyValueCache, SessionsShareAJittedStep) {
  manual_seed(7);
  NoGrad no_grad;
  auto step =
      jit([](const Tensor &q, const Tensor &k, const Tensor &v, const KeyValueCache &cache) {
        return cache.attend(0, cache.next(1), q, k, v);
      });
  constexpr int64_t kTokens = 5;
  auto tokens_of_a_session = [] {
    Tokens tokens = Tokens::random(1, 2, 2, kTokens);
    eval({tokens.query, tokens.key, tokens.value});
    return tokens;
  };
  auto go_on = [&](const KeyValueCache &cache, const Tokens &tokens, int64_t i) {
    Tokens one = tokens.part(i, 1);
    expect_near(step(one.query, one.key, one.value, cache), whole(tokens).narrow(2, i, 1));
  };
  KeyValueCacheOptions options{.layers = 1, .heads = 2, .size = 4, .capacity = 8};
  // One after the other: the memory of a cache is that of the one before.
  for (int session = 0; session < 6; ++session) {
    Tokens tokens = tokens_of_a_session();
    KeyValueCache cache(options);
    for (int64_t i = 0; i < kTokens; ++i)
      go_on(cache, tokens, i);
    EXPECT_EQ(cache.lengths().to_vector<int64_t>(), std::vector<int64_t>{kTokens});
  }
  // In turns.
  std::vector<std::pair<KeyValueCache, Tokens>> sessions;
  for (int session = 0; session < 3; ++session)
    sessions.emplace_back(KeyValueCache(options), tokens_of_a_session());
  for (int64_t i = 0; i < kTokens; ++i)
    for (const auto &[cache, tokens] : sessions)
      go_on(cache, tokens, i);
}

TEST(KeyValueCache, OneTokenTooManyIsAnErrorOfTheRun) {
  manual_seed(5);
  Tokens tokens = Tokens::random(2, 2, 2, 4);
  KeyValueCache cache({.layers = 1, .batch = 2, .heads = 2, .size = 4, .capacity = 3});
  take(cache, tokens.part(0, 3)).eval();
  cache.set_lengths({1, 3});
  // The first text has room, the second has none: its token would stand in the next head's rows.
  Tensor seen = take(cache, tokens.part(3, 1));
  auto run = [&] {
    eval({seen, cache.lengths()});
  };
  const char *full = "KeyValueCache: a text would have more tokens than the cache's capacity;";
  EXPECT_NE(message_of(run, ErrorKind::kRun).find(full), std::string::npos);
  // The program is undone: nobody advanced, no row of either text was written, and both go on.
  EXPECT_EQ(cache.lengths().to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
  cache.set_lengths({3, 2});
  EXPECT_MESSAGE(take(cache, tokens.part(3, 1)).eval(), full);
  cache.set_lengths({1, 2});
  seen = take(cache, tokens.part(3, 1));
  for (int64_t row : {0, 1}) {
    Tokens text = tokens.row(row), known = text.part(0, row + 1), last = text.part(3, 1);
    Tokens both = {cat({known.query, last.query}, 2), cat({known.key, last.key}, 2),
                   cat({known.value, last.value}, 2)};
    expect_near(seen.narrow(0, row, 1), whole(both).narrow(2, row + 1, 1));
  }
  EXPECT_EQ(cache.lengths().to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
}

TEST(KeyValueCache, HasItsStateAsBuffers) {
  KeyValueCache cache({.layers = 2, .batch = 3, .heads = 2, .size = 4, .capacity = 5});
  std::vector<std::string> names;
  for (const auto &[name, tensor] : cache.named_buffers())
    names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"lengths", "keys.0", "keys.1", "values.0", "values.1"}));
  EXPECT_EQ(cache.state()[1].second.shape(), (Shape{3, 2, 5, 4}));
  EXPECT_TRUE(cache.parameters().empty());
  KeyValueCache half = nn::to(cache, bfloat16);
  EXPECT_EQ(half.state()[1].second.dtype(), bfloat16);
  EXPECT_EQ(half.state()[0].second.dtype(), int64);
}

TEST(KeyValueCache, Errors) {
  EXPECT_EQ(message_of([] { KeyValueCache({.layers = 1, .heads = 0, .size = 4, .capacity = 5}); },
                       ErrorKind::kValue),
            "KeyValueCache: layers, batch, heads, size and capacity must be at least 1, they are "
            "[1, 1, 0, 4, 5]");
  EXPECT_NE(message_of(
                [] {
                  KeyValueCache(
                      {.layers = 1, .heads = 1, .size = 4, .capacity = 5, .dtype = int64});
                },
                ErrorKind::kDType),
            "");
  KeyValueCache cache({.layers = 1, .batch = 2, .heads = 2, .size = 4, .capacity = 5});
  EXPECT_NE(message_of([&] { cache.next(6); }, ErrorKind::kValue, __LINE__), "");
  EXPECT_NE(message_of([&] { cache.set_lengths({1}); }, ErrorKind::kValue, __LINE__), "");
  EXPECT_NE(message_of([&] { cache.set_lengths({1, 6}); }, ErrorKind::kValue, __LINE__), "");
  KeyValueCache::Places places = cache.next(1);
  Tensor good = zeros({2, 2, 1, 4}), bad = zeros({2, 3, 1, 4});
  EXPECT_EQ(
      message_of([&] { cache.attend(0, places, good, bad, good); }, ErrorKind::kShape),
      "KeyValueCache: query, key and value are [2, 2, 1, 4], [2, 3, 1, 4] and [2, 2, 1, 4]; "
      "keys and values must be [2, 2, 1, 4], queries the same with any multiple of the heads");
  EXPECT_NE(message_of([&] { cache.attend(0, places, bad, good, good); }, ErrorKind::kShape), "");
  EXPECT_NE(message_of([&] { cache.attend(1, places, good, good, good); }, ErrorKind::kValue), "");
  EXPECT_NE(
      message_of([&] { cache.attend(0, places, good, good.to(float64), good); }, ErrorKind::kDType),
      "");
}

// Tokens that cannot be computed, or have no room, leave the texts as they were.
TEST(KeyValueCache, AStepThatFailsCostsNothing) {
  manual_seed(6);
  NoGrad no_grad;
  models::Gpt2 model({.vocabulary = 97, .positions = 64, .size = 48, .layers = 2, .heads = 4});
  model.eval();
  Tensor whole = model(tensor<int64_t>({{1, 2, 3, 4, 6}})).eval();
  for (bool reads_lengths : {false, true}) {
    KeyValueCache cache = model.make_cache(1, 6);
    model(tensor<int64_t>({{1, 2, 3, 4}}), cache).eval();
    if (reads_lengths)
      EXPECT_EQ(cache.lengths().to_vector<int64_t>(), std::vector<int64_t>{4});
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(model(tensor<int64_t>({{97}}), cache).eval(), Error);
      EXPECT_THROW(model(tensor<int64_t>({{1, 2, 3}}), cache).eval(), Error);
    }
    EXPECT_EQ(cache.lengths().to_vector<int64_t>(), std::vector<int64_t>{4});
    Tensor next = model(tensor<int64_t>({{6}}), cache);
    expect_near(next[0][0], whole[0][4]);
    EXPECT_EQ(cache.lengths().to_vector<int64_t>(), std::vector<int64_t>{5});
  }
}

} // namespace
} // namespace weft::nn
