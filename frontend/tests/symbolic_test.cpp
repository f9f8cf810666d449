// Programs that serve many sizes and slice starts: how many are compiled, and that they compute
// what static ones compute, bit for bit.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "frontend/tests/symbolic_fixture.h"
#include "tests/support/errors.h"

namespace weft {
namespace {

const std::vector<int64_t> kSizes = {24, 32, 5, 3, 31, 17, 24, 16};
// Products that the library takes at each of them.
const std::vector<int64_t> kLargeSizes = {24, 32, 17, 31, 16, 20, 24};

// More operands than an op of a kernel has: backends that make kernels compile for seconds.
TEST_F(Symbolic, AJoinOfManyTensors) {
  if (config().backend != "reference")
    GTEST_SKIP();
  for (int64_t size : {2, 3, 5}) {
    std::vector<Tensor> parts(40000, ones({size}).eval());
    EXPECT_EQ(cat(parts, 0).sum().item<float>(), 40000.f * float(size));
  }
}

TEST_F(Symbolic, ALoopThatIndexesByItsStep) {
  Tensor x = arange(1000 * 3).reshape({1000, 3}).to(float32), y = zeros({3});
  x.eval();
  y.eval();
  uint64_t before = compiles(), hits = statistics().symbolic_hits;
  std::vector<float> expected(3);
  for (int i = 0; i < 1000; ++i) {
    y = y + x[i];
    y.eval();
    for (int k = 0; k < 3; ++k)
      expected[k] += float(3 * i + k);
  }
  EXPECT_EQ(y.to_vector<float>(), expected);
  // The first step does not own y alone, the others do.
  EXPECT_LE(compiles() - before, 3u);
  EXPECT_GE(statistics().symbolic_hits - hits, 997u);
  EXPECT_NE(last().symbolic.find("a0=999"), std::string::npos) << last().to_string();
  EXPECT_NE(last().to_string().find("hit (symbolic, a0=999)"), std::string::npos)
      << last().to_string();
}

TEST_F(Symbolic, SlicesOfAllKinds) {
  Tensor x = arange(40 * 5).reshape({40, 5}).to(float32) * 1.5;
  x.eval();
  uint64_t before = compiles();
  for (int i = 0; i < 10; ++i) {
    // Two starts, one of them backwards; a column; a row from the end.
    Tensor rows = x.slice(0, i, i + 7) - x.slice(0, 2 * i + 1, 2 * i + 15, 2);
    Tensor value = rows * 2.0 + x.select(1, i % 5).slice(0, 3, 10).reshape({7, 1}) + x[39 - i];
    std::vector<float> got = value.to_vector<float>();
    for (int r = 0; r < 7; ++r)
      for (int c = 0; c < 5; ++c) {
        auto at = [](int row, int column) {
          return float(5 * row + column) * 1.5f;
        };
        EXPECT_EQ(got[5 * r + c], (at(i + r, c) - at(2 * i + 1 + 2 * r, c)) * 2.f +
                                      at(3 + r, i % 5) + at(39 - i, c))
            << i;
      }
  }
  EXPECT_LE(compiles() - before, 3u);
}

// What a jitted function computes at sizes that vary is one program, too; a training step's state
// stays where it is.
TEST_F(Symbolic, JittedFunctionsOfManySizes) {
  auto body = [](const Tensor &x) {
    return (tanh(x) * 0.75 + x).sum(1);
  };
  auto jitted = jit(body);
  uint64_t before = compiles();
  std::vector<Tensor> results;
  for (int64_t n : kSizes)
    results.push_back(jitted(arange(n * 7).reshape({n, 7}).to(float32) / 100.0).eval());
  if (has_sizes())
    EXPECT_LE(compiles() - before, 6u); // with those that make the arguments
  for (size_t i = 0; i < kSizes.size(); ++i) {
    int64_t n = kSizes[i];
    Tensor plain = body(arange(n * 7).reshape({n, 7}).to(float32) / 100.0);
    EXPECT_EQ(results[i].to_vector<float>(), plain.to_vector<float>()) << n;
  }
}

TEST_F(Symbolic, JittedStepsOfManySizes) {
  auto train = [](bool jitted) {
    Tensor w = (arange(12).reshape({4, 3}).to(float32) / 10.0).requires_grad_(), seen = zeros({});
    auto step = [&](const Tensor &x) {
      Tensor loss = matmul(x, w).square().mean();
      loss.backward();
      NoGrad guard;
      w -= 0.1 * w.grad();
      w.zero_grad();
      seen += loss;
      return loss;
    };
    auto compiled = jit(step);
    std::vector<float> losses;
    uint64_t before = compiles();
    for (int64_t n : kSizes) {
      Tensor x = (arange(n * 4).reshape({n, 4}).to(float32) / 50.0).eval();
      losses.push_back((jitted ? compiled(x) : step(x)).item<float>());
    }
    losses.push_back(seen.item<float>());
    for (float each : w.to_vector<float>())
      losses.push_back(each);
    return std::pair(losses, compiles() - before);
  };
  auto [plain, unused] = train(false);
  auto [jitted, programs] = train(true);
  EXPECT_EQ(jitted, plain);
}

// The rows of all steps of an unrolled cell, and parts that lie in front of the batch in between.
TEST_F(Symbolic, UnrolledCellsAndHeads) {
  Tensor w = (input(64, {64}, 51) * 0.05).set_requires_grad(),
         heads = (input(96, {32}, 52) * 0.05).set_requires_grad();
  compare(kSizes, 5, [&](int64_t n) {
    Tensor x = input(n, {6, 64}, 53), h = zeros({n, 64});
    for (int t = 0; t < 6; ++t)
      h = tanh(matmul(h, w) + x.select(1, t));
    return std::vector<Tensor>{grad({h.square().mean()}, {w})[0]};
  });
  compare(kSizes, 3, [&](int64_t n) {
    Tensor p = linear(input(n, {5, 32}, 54), heads).reshape({n, 5, 3, 2, 16});
    Tensor parts = p.permute({2, 0, 3, 1, 4});
    Tensor y = (tanh(parts[0]) * parts[1] + parts[2]).transpose(1, 2).reshape({n, 5, 32});
    return std::vector<Tensor>{y.detach(), grad({y.square().mean()}, {heads})[0]};
  });
}

// A jitted function's failure has its own line, though the program was compiled for another one.
TEST_F(Symbolic, JittedFailuresHaveTheirLine) {
  auto first = jit([](const Tensor &x, const Tensor &at) { return gather(x, 1, at) * 5; });
  int line = __LINE__ + 1;
  auto second = jit([](const Tensor &x, const Tensor &at) { return gather(x, 1, at) * 5; });
  Tensor x = arange(12).reshape({3, 4}).to(float32).eval();
  Tensor inside = zeros({3, 1}, int64).eval(), outside = (zeros({3, 1}, int64) + 9).eval();
  first(x, inside).eval();
  Error error = testing_support::error_of([&] { second(x, outside).to_vector<float>(); });
  EXPECT_EQ(error.line(), line) << error.what();
}

// A failure has the line of the call, whichever line the program for all sizes was compiled for.
TEST_F(Symbolic, FailuresHaveTheLineOfTheirCall) {
  auto index = [](int64_t n, Location location = Location::current()) {
    Tensor x = arange(n * 4).reshape({n, 4}).to(float32), at = arange(n).reshape({n, 1}) * 0 + 7;
    x.eval();
    at.eval();
    return gather(x, 1, at, location) * 3;
  };
  auto line_of = [](const Tensor &x) {
    try {
      x.to_vector<float>();
    } catch (const Error &error) {
      return error.line();
    }
    return 0;
  };
  int line = __LINE__;
  EXPECT_EQ(line_of(index(24)), line + 1);
  EXPECT_EQ(line_of(index(32)), line + 2);
  for (int64_t n : kSizes)
    EXPECT_EQ(line_of(index(n)), line + 4) << n;
  if (config().backend == "cpu") {
    EXPECT_NE(last().symbolic, "") << last().to_string();
  }
}

TEST_F(Symbolic, WritesAtAVaryingPlace) {
  Tensor cache = zeros({20, 4, 3});
  uint64_t before = compiles();
  std::vector<float> expected(20 * 4 * 3);
  for (int i = 0; i < 20; ++i) {
    cache.slice(1, 1, 3)[i].copy_(full({2, 3}, i + 1.0));
    for (int k = 3; k < 9; ++k)
      expected[12 * i + k] = float(i + 1);
    cache.eval();
  }
  EXPECT_EQ(cache.to_vector<float>(), expected);
  EXPECT_LE(compiles() - before, 4u);
}

TEST_F(Symbolic, TheGradientOfAVaryingSlice) {
  Tensor x = arange(12).reshape({6, 2}).to(float32);
  x.set_requires_grad(true);
  uint64_t before = compiles();
  for (int i = 0; i < 6; ++i) {
    Tensor loss = sum(x[i] * x[i]);
    Tensor g = grad({loss}, {x})[0];
    std::vector<float> expected(12);
    expected[2 * i] = 2.f * float(2 * i), expected[2 * i + 1] = 2.f * float(2 * i + 1);
    EXPECT_EQ(g.to_vector<float>(), expected) << i;
  }
  EXPECT_LE(compiles() - before, 2u);
}

TEST_F(Symbolic, ExplainSaysWhatVaries) {
  Tensor x = arange(30).reshape({10, 3}).to(float32);
  x.eval();
  (x[3] - 0.25).eval();
  (x[5] - 0.25).eval();
  Evaluation compiled = last();
  EXPECT_EQ(compiled.outcome, CacheOutcome::kCompiled);
  EXPECT_NE(compiled.symbolic.find("a0 (start 0 of weft.slice (frontend/tests/symbolic_test.cpp:"),
            std::string::npos)
      << compiled.symbolic;
  EXPECT_TRUE(compiled.not_symbolic.empty());
  (x[9] - 0.25).eval();
  EXPECT_EQ(last().outcome, CacheOutcome::kMemoryHit);
  EXPECT_EQ(last().symbolic, "a0=9");
}

TEST_F(Symbolic, ElementwiseWithBroadcasts) {
  Tensor w = input(6, {}, 1), b = input(1, {}, 2);
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {6}, 3), column = input(n, {1}, 4);
    return std::vector<Tensor>{tanh(x * w + b) - column, (x > 0.5).to(float32) * x};
  });
  if (has_sizes())
    EXPECT_NE(notes_.find("symbolic: s0 in [2, 32] (dim 0 of input"), std::string::npos) << notes_;
  if (has_sizes())
    EXPECT_NE(notes_.find("hit (symbolic, s0=17)"), std::string::npos) << notes_;
  if (!has_sizes())
    EXPECT_NE(notes_.find("not symbolic: the backend does not run programs for many sizes"),
              std::string::npos)
        << notes_;
}

TEST_F(Symbolic, OneLongRun) {
  compare({5000, 7777, 3, 1024, 16, 8192, 4097}, 2, [](int64_t n) {
    Tensor x = input(n, {}, 5);
    return std::vector<Tensor>{exp(x * 0.25) / (abs(x) + 1.0)};
  });
}

TEST_F(Symbolic, RowsOfEachKind) {
  Tensor weight = input(40, {}, 6), bias = input(40, {}, 7);
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {3, 40}, 8);
    return std::vector<Tensor>{softmax(x, -1),  layer_norm(x, {40}, weight, bias),
                               sum(x * x, 2),   max(x, -1),
                               mean(x, {1, 2}), log_softmax(x, 2) * 2.0};
  });
}

TEST_F(Symbolic, RowsThatLieSideBySide) {
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {21, 40}, 43);
    return std::vector<Tensor>{softmax(x, 1), log_softmax(x, 1) * 2.0, x - mean(x, {1}, true)};
  });
  if (has_sizes())
    EXPECT_NE(notes_.find("8 ops -> 1 kernels, 0 library calls | 2 in, 3 out, 1 donated | hit "
                          "(symbolic, s0=31)"),
              std::string::npos)
        << notes_;
}

TEST_F(Symbolic, SortsOfRows) {
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {3, 100}, 31);
    auto [values, indices] = sort(x);
    return std::vector<Tensor>{values, indices, sort(x, 1, true).first * 2.0, topk(x, 2).second,
                               argsort(x, 1)};
  });
  // Along the size itself.
  compare({100, 128, 33, 3, 31, 20000}, 3,
          [&](int64_t n) { return std::vector<Tensor>{argsort(input(n, {}, 32))}; });
}

TEST_F(Symbolic, PositionsOfExtremes) {
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {3, 40}, 37);
    auto [values, indices] = max_with_indices(x * 1.5, 2);
    return std::vector<Tensor>{argmax(x, 2), argmin(x, 1), values, indices, median(x, 2).first};
  });
}

TEST_F(Symbolic, ScansOfRows) {
  compare({40, 32, 5, 3, 31, 17, 48, 16, 64, 33}, 2, [&](int64_t n) {
    Tensor x = input(n, {100}, 38);
    return std::vector<Tensor>{cumsum(x * 1.5, 1)};
  });
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {7, 20}, 39);
    return std::vector<Tensor>{cumsum(x, 1), cumsum(x, 2).flip({2})};
  });
}

// As many samples as there are, the next ones behind them. Three programs: the first two sizes take
// as much of the generator for some of them.
TEST_F(Symbolic, NormalSamples) {
  Tensor x = input(32, {40}, 41);
  compare(kSizes, 3, [&](int64_t n) {
    manual_seed(7);
    Tensor noise = randn({n, 40}), more = randn({n, 3}, float64), narrow = randn({n}, bfloat16);
    return std::vector<Tensor>{input(n, {40}, 42) + noise * 0.5, more + 1.0, narrow * 2.0,
                               randn({5}) * x.narrow(0, 0, 1).narrow(1, 0, 5)};
  });
}

TEST_F(Symbolic, ReshapesJoinTheSizeWithOthers) {
  Tensor bias = input(10, {}, 9);
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {4, 10}, 10);
    Tensor flat = x.reshape({n * 4, 10}) + bias;
    return std::vector<Tensor>{softmax(flat, 1).reshape({n, 2, 20}), (flat * 1.5).reshape({n, 40})};
  });
}

TEST_F(Symbolic, Matmul) {
  Tensor w1 = input(48, {64}, 11), w2 = input(64, {10}, 12), b1 = input(64, {}, 13);
  compare(kLargeSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {48}, 14);
    return std::vector<Tensor>{matmul(relu(matmul(x, w1) + b1), w2)};
  });
  // The library takes the second product from 7 rows on: a range that begins at 2 would change its
  // bits.
  if (has_sizes())
    EXPECT_NE(notes_.find("symbolic: s0 in [16, 32] (dim 0 of input 0)"), std::string::npos)
        << notes_;
}

// The library takes the first product from 32 rows on, the second from 64 on: a range lies between
// two such sizes.
TEST_F(Symbolic, MatmulsThatTheLibraryTakesAtTheEndOfARange) {
  Tensor up = input(4, {32}, 33), down = input(32, {2}, 34);
  compare({43, 50, 36, 33, 35, 28, 40, 44, 53, 20, 45, 24, 38, 64}, 4, [&](int64_t n) {
    return std::vector<Tensor>{matmul(tanh(matmul(input(n, {4}, 35), up)), down)};
  });
  if (has_sizes())
    EXPECT_NE(notes_.find("symbolic: s0 in [32, 57]"), std::string::npos) << notes_;
}

// Our own kernel has them at every size.
TEST_F(Symbolic, MatmulsTooSmallForTheLibrary) {
  Tensor weight = input(5, {7}, 33), batched = input(1, {5, 6}, 34);
  compare(kSizes, 2, [&](int64_t n) {
    return std::vector<Tensor>{matmul(input(n, {5}, 35), weight),
                               matmul(input(n, {3, 5}, 36), batched) * 2.0};
  });
}

TEST_F(Symbolic, MatmulInSequences) {
  Tensor w = input(32, {32}, 15);
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {16, 32}, 16);
    Tensor scores = softmax(matmul(matmul(x, w), x.transpose(1, 2)) * 0.125, -1);
    return std::vector<Tensor>{matmul(scores, x)};
  });
}

TEST_F(Symbolic, ReductionsOverTheSize) {
  compare({100, 128, 33, 2, 31, 32, 64, 127}, 2, [&](int64_t n) {
    Tensor x = input(n, {37}, 24), loss = sum(x * x, 1);
    return std::vector<Tensor>{sum(x, 0), max(x, 0), mean(x, 0), mean(loss)};
  });
  compare({2000, 2048, 2, 1999, 33, 1024}, 2,
          [&](int64_t n) { return std::vector<Tensor>{sum(exp(input(n, {5}, 25)), 0)}; });
  compare({8000, 8192, 3, 17, 5000}, 2, [&](int64_t n) {
    return std::vector<Tensor>{sum(input(n, {}, 26) * 1.5), mean(input(n, {}, 27))};
  });
}

// Of more rows chunks of a sum over rows are larger, and a total has several blocks: few columns,
// whose sums are in registers, and more; beside other sums of the rows; in each dtype that adds up
// in another way.
TEST_F(Symbolic, LongSumsOverTheSize) {
  const std::vector<int64_t> sizes = {3000, 4096, 2048, 2049, 33, 4095, 2};
  compare(sizes, 2, [&](int64_t n) {
    return std::vector<Tensor>{sum(exp(input(n, {5}, 25)), 0), max(input(n, {5}, 26), 0),
                               sum(input(n, {3}, 27).to(float64), 0)};
  });
  compare(sizes, 2,
          [&](int64_t n) { return std::vector<Tensor>{sum(input(n, {150}, 25) * 1.5, 0)}; });
  Tensor weight = input(24, {}, 28), bias = input(24, {}, 29);
  compare(sizes, 2, [&](int64_t n) {
    Tensor x = input(n, {24}, 30), w = weight.detach(), b = bias.detach();
    for (Tensor *leaf : {&x, &w, &b})
      leaf->set_requires_grad(true);
    return grad({mean(square(layer_norm(x, {24}, w, b)) * input(n, {24}, 31))}, {x, w, b});
  });
  compare({20000, 32768, 8192, 8193, 16384, 3, 24577}, 2, [&](int64_t n) {
    Tensor x = input(n, {}, 26);
    return std::vector<Tensor>{sum(x * 1.5), mean(x.to(float64)), max(x), x - mean(x),
                               mean(sum(input(n, {3}, 27), 1))};
  });
}

TEST_F(Symbolic, GradientsOfRows) {
  Tensor weight = input(40, {}, 28), bias = input(40, {}, 29);
  compare(kSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {40}, 30), w = weight.detach(), b = bias.detach();
    for (Tensor *leaf : {&x, &w, &b})
      leaf->set_requires_grad(true);
    Tensor loss = mean(pow(softmax(layer_norm(x, {40}, w, b), -1), 2));
    return grad({loss}, {x, w, b});
  });
}

// A power of 3 is two products, whatever powers were computed before it.
TEST_F(Symbolic, ExponentsAreNoConstantsThatVary) {
  if (!has_sizes())
    return; // the interpreter asks libm for every power
  Tensor x = input(100, {3}, 47).abs().eval();
  std::vector<float> of = x.to_vector<float>();
  pow(x, -1.5).eval();
  pow(x, 2.5).eval();
  pow(x, 2.8).eval();
  std::vector<float> cube = pow(x, 3.0).to_vector<float>(), root = pow(x, 0.5).to_vector<float>();
  for (size_t i = 0; i < of.size(); ++i) {
    EXPECT_EQ(cube[i], of[i] * of[i] * of[i]) << of[i];
    EXPECT_EQ(root[i], std::sqrt(of[i])) << of[i];
  }
}

TEST_F(Symbolic, TrainingStepsOfAnMlp) {
  nn::Linear up(20, 64), down(64, 12);
  for (const Tensor &parameter : up.parameters())
    parameter.eval();
  for (const Tensor &parameter : down.parameters())
    parameter.eval();
  std::vector<Tensor> parameters = up.parameters();
  for (const Tensor &parameter : down.parameters())
    parameters.push_back(parameter);
  compare(kLargeSizes, 2, [&](int64_t n) {
    Tensor x = input(n, {20}, 31);
    std::vector<int64_t> classes(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      classes[static_cast<size_t>(i)] = (7 * i) % 12;
    Tensor target = Tensor::from(classes);
    target.eval();
    Tensor loss = nn::cross_entropy(down(relu(up(x))), target);
    std::vector<Tensor> outputs = grad({loss}, parameters);
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = parameters[i].detach() - outputs[i] * 0.1;
    outputs.push_back(loss.detach());
    return outputs;
  });
}

// The derivative of attention is one kernel for many batches, where its matrices are not few.
TEST_F(Symbolic, TrainingStepsOfATransformer) {
  nn::TransformerBlock block(32, 4, {.causal = true});
  for (const Tensor &parameter : block.parameters())
    parameter.eval();
  compare(kLargeSizes, 2, [&](int64_t n) {
    Tensor loss = block(input(n, {24, 32}, 48)).square().mean();
    std::vector<Tensor> outputs = grad({loss}, block.parameters());
    outputs.push_back(loss.detach());
    return outputs;
  });
}

// Whole steps with an optimizer's state, as a loop makes them, at small and at large sizes: as many
// programs as the range has powers of two, with the losses and parameters of one for each size.
TEST_F(Symbolic, LoopsThatTrainAtManySizes) {
  auto train = [](const std::vector<int64_t> &sizes) {
    manual_seed(5);
    nn::Linear up(20, 64), down(64, 10);
    nn::BatchNorm1d norm(64);
    std::vector<Tensor> parameters = up.parameters();
    for (const nn::Module *each : {static_cast<const nn::Module *>(&norm),
                                   static_cast<const nn::Module *>(&down)})
      for (const Tensor &parameter : each->parameters())
        parameters.push_back(parameter);
    optim::AdamW optimizer(parameters, {.lr = 1e-3});
    std::vector<float> values;
    uint64_t before = compiles();
    for (int64_t n : sizes) {
      Tensor target = ((arange(n) * 7) % 10).eval(), x = input(n, {20}, 31);
      Tensor loss = nn::cross_entropy(down(relu(norm(up(x)))), target);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      values.push_back(loss.item<float>());
    }
    uint64_t programs = compiles() - before;
    for (const Tensor &parameter : parameters)
      for (float value : parameter.to_vector<float>())
        values.push_back(value);
    return std::pair(values, programs);
  };
  Config static_options = config();
  static_options.symbolic = false;
  for (const std::vector<int64_t> &sizes :
       {std::vector<int64_t>{40, 33, 64, 35, 63, 47, 51, 37, 59, 61},
        std::vector<int64_t>{3000, 3100, 3777, 4096, 4097, 4999, 3001, 2500, 4500, 3333}}) {
    auto [values, programs] = train(sizes);
    if (has_sizes())
      EXPECT_LE(programs, 8u) << last().to_string();
    set_config(static_options);
    EXPECT_EQ(train(sizes).first, values);
    set_config(before_);
  }
}

TEST_F(Symbolic, TheRangeGrowsByPowersOfTwo) {
  if (!has_sizes())
    return;
  uint64_t before = compiles();
  for (int64_t n = 2; n <= 200; ++n) {
    Tensor x = input(n, {7}, 17);
    EXPECT_EQ((x * 3.0 - x).numel(), 7 * n);
    (x * 3.0 - x).eval();
  }
  // 2 alone, then up to 4, 8, ... 256.
  EXPECT_LE(compiles() - before, 8u);
}

// What lookups and gathers have as gradients: as many rows are added as there are, in their order.
TEST_F(Symbolic, AddsAsManyRowsAsThereAre) {
  Tensor base = input(13, {70}, 33), counts = input(13, {}, 34);
  auto places = [](int64_t n) {
    return (arange(n) * 7 + 3) % 13;
  };
  compare(kSizes, 2, [&](int64_t n) {
    Tensor source = input(n, {70}, 35);
    return std::vector<Tensor>{
        index_add(base, 0, places(n), source), index_add(counts, 0, places(n), sum(source, 1)),
        index_put(base, {places(n)}, source), index_select(base, 0, places(n)) * 2.0};
  });
  compare(kSizes, 2, [&](int64_t n) {
    Tensor source = input(n, {5}, 36), columns = (arange(n * 5).reshape({n, 5}) * 3) % 7;
    return std::vector<Tensor>{scatter_add(zeros({13}), 0, places(n), sum(source, 1)),
                               scatter_add(input(n, {7}, 37), 1, columns, source),
                               scatter_add(input(13, {9}, 38), 0, columns, source)};
  });
  // More rows than elements may get without totals.
  compare({500, 1024, 417, 448, 447, 33, 1000}, 2, [&](int64_t n) {
    return std::vector<Tensor>{index_add(input(13, {90}, 33), 0, places(n), input(n, {90}, 35)),
                               index_add(input(13, {90}, 33).to(float64), 0, places(n),
                                         input(n, {90}, 35).to(float64))};
  });
  Tensor words = input(13, {12}, 39);
  words.set_requires_grad();
  compare(kSizes, 2, [&](int64_t n) {
    Tensor found = embedding((arange(n * 3).reshape({n, 3}) * 5) % 13, words);
    return grad({sum(found * found * input(n, {3, 12}, 40))}, {words});
  });
}

// Rows but the first, the last or every other one are as many as another size says.
TEST_F(Symbolic, TakesPartsOfRows) {
  compare({24, 32, 5, 31, 17, 4, 16}, 3, [&](int64_t n) {
    Tensor x = input(n, {7}, 70), y = x.slice(0, 1) * 2.0 - x.slice(0, 0, -1);
    return std::vector<Tensor>{y, y.sum(1), tanh(x).slice(0, 1) + 1.0};
  });
  compare({40, 60, 34, 44, 58}, 2, [&](int64_t n) {
    Tensor x = input(n, {7}, 71);
    return std::vector<Tensor>{x.slice(0, 0, {}, 2) - x.slice(0, 1, {}, 2)};
  });
}

// What was computed with a number for all rows, of which slices are taken: as many as there are,
// and no write behind them.
TEST_F(Symbolic, SlicesOfWhatIsReducedAsAWhole) {
  compare(kSizes, 8, [](int64_t n) {
    Tensor x = input(n, {9}, 61), y = x - x.min();
    return std::vector<Tensor>{y.slice(1, 1, 4), maximum(y.slice(1, 0, -1), y.slice(1, 1))};
  });
  compare(kSizes, 8, [](int64_t n) {
    Tensor x = input(n, {9}, 62);
    return std::vector<Tensor>{(x / x.abs().max()).select(1, 3)};
  });
  compare(kSizes, 8, [](int64_t n) {
    Tensor x = input(n, {2, 5}, 63).set_requires_grad();
    return std::vector<Tensor>{grad({pad(x, {0, 1}).min()}, {x})[0]};
  });
}

// What meets in an element is one by the order of the source, however long that is.
TEST_F(Symbolic, ReducesAsManyRowsAsThereAre) {
  for (std::string reduce : {"amax", "amin", "prod"}) {
    compare(kSizes, 2, [&](int64_t n) {
      Tensor places = (arange(n) * 7 + 3) % 13, source = input(n, {70}, 67);
      return std::vector<Tensor>{
          scatter_reduce(input(13, {}, 68), 0, places, sum(source, 1), reduce),
          scatter_reduce(input(13, {70}, 69), 0, places.unsqueeze(1).expand({n, 70}), source,
                         reduce),
          scatter_reduce(input(13, {}, 68).to(float64), 0, places, sum(source, 1).to(float64),
                         reduce, false)};
    });
    compare(kSizes, 2, [&](int64_t n) {
      Tensor columns = (arange(n * 5).reshape({n, 5}) * 3) % 7;
      return std::vector<Tensor>{
          scatter_reduce(input(n, {7}, 37), 1, columns, input(n, {5}, 36), reduce)};
    });
  }
}

// A softmax over the edges of each node, and its gradient.
TEST_F(Symbolic, SoftmaxOfSegments) {
  Tensor nodes = input(13, {6}, 70), weight = input(6, {}, 71);
  weight.set_requires_grad();
  compare({24, 32, 5, 3, 31, 17, 100, 77}, 3, [&](int64_t n) {
    Tensor to = (arange(n) * 5) % 13, from = (arange(n) * 7 + 1) % 13,
           scores = matmul(nodes, weight).index_select(0, from),
           most = full({13}, -1e30, float32).scatter_reduce(0, to, scores, "amax").detach(),
           terms = exp(scores - most.index_select(0, to)),
           parts = terms / zeros({13}).index_add(0, to, terms).index_select(0, to);
    Tensor out = zeros({13, 6}).index_add(0, to, nodes.index_select(0, from) *
                                                     parts.unsqueeze(1));
    return std::vector<Tensor>{out.detach(), grad({out.square().sum()}, {weight})[0]};
  });
}

// A search over widths: each width has its program for all sizes, although the others have the same
// ops.
TEST_F(Symbolic, SeveralWidthsOfOneStructure) {
  for (int64_t width : {23, 41, 59}) {
    uint64_t before = compiles();
    for (int64_t n : kSizes) {
      Tensor x = input(n, {width}, 41);
      Tensor y = (x * 3.0 - 1.0) * sum(x, 1, true);
      y.eval();
      ASSERT_EQ(y.shape(), (Shape{n, width}));
      std::vector<float> in = x.to_vector<float>(), out = y.to_vector<float>();
      double sum = 0;
      for (auto i = in.end() - width; i != in.end(); ++i)
        sum += *i;
      EXPECT_NEAR(out.back(), (in.back() * 3.0 - 1.0) * sum, 1e-3) << n;
    }
    if (has_sizes())
      EXPECT_LE(compiles() - before, 3u) << width << ": " << last().to_string();
  }
}

// A size that cannot vary with others is fixed: each value of it has its program for all batches,
// however many of them were seen.
TEST_F(Symbolic, BatchesOfSeveralLengths) {
  auto step = [](int64_t n, int64_t length) {
    Tensor x = input(n, {length, 3}, 61), y = sum(softmax(x, 1) * x.flip({1}) + x.tanh(), 1);
    y.eval();
    ASSERT_EQ(y.shape(), (Shape{n, 3}));
  };
  for (int64_t length : {20, 21, 22, 23})
    step(37, length);
  for (int64_t length : {20, 22, 25}) {
    uint64_t before = compiles();
    for (int64_t n = 20; n < 36; ++n)
      step(n, length);
    if (has_sizes())
      EXPECT_LE(compiles() - before, 4u) << length << ": " << last().to_string();
  }
  uint64_t before = compiles();
  for (int64_t n = 20; n < 36; ++n)
    step(n, n % 2 ? 20 : 22);
  EXPECT_EQ(compiles() - before, 0u) << last().to_string();
}

// Both sizes are other ones in each step at first, so that nothing says which of them cannot vary.
TEST_F(Symbolic, ImagesOfSeveralSizes) {
  Tensor kernel = input(4, {3, 3, 3}, 62);
  auto step = [&](int64_t n, int64_t width) {
    Tensor y = conv2d(input(n, {3, width, width}, 63), kernel).relu().mean({2, 3});
    y.eval();
    ASSERT_EQ(y.shape(), (Shape{n, 4}));
  };
  for (int64_t i = 0; i < 6; ++i)
    step(33 + i, 12 + i);
  for (int64_t width : {12, 15, 24}) {
    uint64_t before = compiles();
    for (int64_t n = 18; n < 32; ++n)
      step(n, width);
    if (has_sizes())
      EXPECT_LE(compiles() - before, 4u) << width << ": " << last().to_string();
  }
}

// Graphs: the number of nodes is fixed where elements are taken of them, that of edges varies.
TEST_F(Symbolic, EdgesOfSeveralGraphs) {
  Tensor weight = input(16, {8}, 64);
  weight.set_requires_grad();
  auto step = [&](int64_t nodes, int64_t edges) {
    Tensor from = (arange(edges) * 7) % nodes, to = (arange(edges) * 5) % nodes;
    eval({from, to});
    Tensor h = matmul(input(nodes, {16}, 65), weight),
           out = zeros({nodes, 8}).index_add(0, to, h.index_select(0, from));
    eval(grad({out.square().mean()}, {weight}));
  };
  for (int64_t i = 0; i < 5; ++i)
    step(50 + i, 150 + 3 * i);
  for (int64_t nodes : {50, 53, 60}) {
    uint64_t before = compiles();
    for (int64_t i = 0; i < 12; ++i)
      step(nodes, 140 + i * 53 % 100);
    if (has_sizes())
      EXPECT_LE(compiles() - before, 6u) << nodes << ": " << last().to_string();
  }
}

// Batches of graphs that are filled up to a few numbers of nodes, with nodes that no edge has and
// that are a graph of their own: edges vary, and the filling changes no loss and no gradient.
TEST_F(Symbolic, BatchesOfGraphsThatAreFilledUp) {
  constexpr int64_t kGraphs = 5;
  Tensor weight = input(8, {6}, 73), targets = arange(kGraphs) % 6;
  weight.set_requires_grad();
  eval({weight, targets});
  uint64_t compiled = 0;
  auto step = [&](int64_t nodes, int64_t filled, int64_t edges) {
    Tensor from = (arange(edges) * 7) % nodes, to = (arange(edges) * 5) % nodes,
           place = arange(filled), real = place < nodes,
           graph = where(real, place * kGraphs / nodes, kGraphs).to(int64),
           x = where(real.unsqueeze(1), input(filled, {8}, 74), 0.0);
    eval({from, to, graph, x});
    Tensor degree = zeros({filled}).index_add(0, to, ones({edges})) + 1,
           scale = rsqrt(degree).index_select(0, from).unsqueeze(1), h = matmul(x, weight);
    h = relu(zeros({filled, 6}).index_add(0, to, h.index_select(0, from) * scale) + h);
    Tensor sums = zeros({kGraphs + 1, 6}).index_add(0, graph, h).narrow(0, 0, kGraphs),
           loss = cross_entropy(sums, targets);
    std::vector<Tensor> results = grad({loss}, {weight});
    results.push_back(loss);
    uint64_t before = compiles();
    eval(results);
    compiled += compiles() - before;
    return results;
  };
  std::vector<std::vector<Tensor>> filled;
  for (int64_t i = 0; i < 12; ++i)
    filled.push_back(step(33 + i * 37 % 90, i * 37 % 90 < 32 ? 64 : 128, 140 + i * 53 % 100));
  if (has_sizes())
    EXPECT_LE(compiled, 5u) << last().to_string();
  for (int64_t i = 0; i < 12; i += 5) {
    std::vector<Tensor> plain = step(33 + i * 37 % 90, 33 + i * 37 % 90, 140 + i * 53 % 100);
    for (size_t k = 0; k < plain.size(); ++k)
      EXPECT_TRUE(all_close(plain[k], filled[i][k], 1e-5, 1e-6)) << i << ", " << k;
  }
}

// Where no size can vary, what was found of some lengths is not tried again for each.
TEST_F(Symbolic, NoSizeVaries) {
  int refused = 0;
  for (int64_t length = 5; length < 15; ++length)
    for (int64_t n : {6, 7, 8, 9}) {
      Tensor y = cumsum(cumsum(input(n, {length, 2}, 66), 0), 1);
      y.eval();
      ASSERT_EQ(y.shape(), (Shape{n, length, 2}));
      EXPECT_TRUE(last().symbolic.empty()) << last().to_string();
      refused += !last().not_symbolic.empty();
    }
  if (has_sizes())
    EXPECT_GE(refused, 30) << last().to_string();
}

// A library that takes larger sizes only does not keep these, or networks of another width, from
// one program for many sizes.
TEST_F(Symbolic, SmallSizesAreProgramsOfTheirOwn) {
  if (!has_sizes())
    GTEST_SKIP() << "the interpreter takes static shapes";
  auto compiled_by = [](int64_t width, const std::vector<int64_t> &sizes) {
    nn::Linear up(4, width), down(width, 3);
    std::vector<Tensor> parameters = up.parameters();
    for (const Tensor &parameter : down.parameters())
      parameters.push_back(parameter);
    optim::SGD optimizer(parameters, {.lr = 1e-3});
    uint64_t before = compiles();
    for (int64_t n : sizes) {
      Tensor scores = log_softmax(down(relu(up(ones({n, 4})))), 1),
             loss = nll_loss(scores, zeros({n}, int64));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      (void)loss.item<float>();
    }
    return compiles() - before;
  };
  std::vector<int64_t> large;
  for (int64_t n = 64; n < 128; n += 3)
    large.push_back(n);
  std::vector<int64_t> mixed{20, 25, 29};
  mixed.insert(mixed.end(), large.begin(), large.end());
  EXPECT_LE(compiled_by(67, mixed), 9u);
  EXPECT_LE(compiled_by(259, large), 6u);
}

TEST_F(Symbolic, OneIsNoSymbolicSize) {
  Tensor row = input(1, {9}, 18);
  uint64_t before = compiles();
  for (int64_t n : {6, 7, 1, 5, 1, 4}) {
    Tensor x = input(n, {9}, 19);
    Tensor y = x - row;
    EXPECT_EQ(y.shape()[0], n);
    EXPECT_EQ(y.to_vector<float>()[8], x.to_vector<float>()[8] - row.to_vector<float>()[8]);
  }
  if (has_sizes())
    EXPECT_LE(compiles() - before, 3u);
}

TEST_F(Symbolic, WhatIsNotSymbolicSaysWhy) {
  for (int64_t n : {6, 7, 8})
    (input(n, {3}, 20).flip({0}) * 2.0).eval();
  EXPECT_NE(last().not_symbolic.find("weft.slice takes a part of a dimension whose size varies"),
            std::string::npos)
      << last().to_string();
  for (int64_t n : {70000, 70001})
    (input(n, {}, 72).slice(0, 1) * 2.0).eval();
  EXPECT_NE(last().not_symbolic.find("many elements that do not lie in rows"), std::string::npos)
      << last().to_string();
  for (int64_t n : {6, 7})
    cumsum(input(n, {3}, 40), 0).eval();
  if (has_sizes())
    EXPECT_NE(last().not_symbolic.find("weft.cumsum goes along a size that varies"),
              std::string::npos)
        << last().to_string();
  for (int64_t n : {6, 7})
    cumsum(input(3, {n}, 21), 1).eval();
  EXPECT_NE(last().not_symbolic.find("is not that of the leading dimension of [3, s0]"),
            std::string::npos)
      << last().to_string();
}

// What an op's own rule says of names is the reason, without MLIR's sentence about it.
TEST_F(Symbolic, WhatARuleRefusesIsNamed) {
  if (!has_sizes())
    return;
  int line = __LINE__ + 2;
  for (int64_t n : {6, 7})
    (cat({input(n, {3}, 55), input(n, {3}, 56)}, 0) * 2.0).eval();
  const std::string &reason = last().not_symbolic;
  for (std::string part : {std::string("weft.concat: the size of dimension 0 of the result"),
                           "symbolic_test.cpp:" + std::to_string(line)})
    EXPECT_NE(reason.find(part), std::string::npos) << part << " in: " << reason;
  EXPECT_EQ(reason.find("failed to infer"), std::string::npos) << reason;
}

// Sizes that no program may leave open do not keep one from leaving starts open.
TEST_F(Symbolic, StartsVaryWhereSizesCannot) {
  Tensor x = arange(40 * 3 * 20).reshape({40, 3, 20}).to(float32);
  x.eval();
  uint64_t before = compiles();
  std::string reason;
  for (int i = 0; i < 40; ++i) {
    int64_t n = 12 + i % 4 * 2;
    Tensor part = x[i].narrow(1, 0, n), sums = (part * 2.0 + part.sum(1, true)).sum(1);
    for (int r = 0; r < 3; ++r) {
      double first = 60 * i + 20 * r, sum = first * double(n) + double(n * (n - 1) / 2);
      EXPECT_EQ(sums.to_vector<float>()[static_cast<size_t>(r)], float(sum * double(2 + n)))
          << i << ", " << r;
    }
    if (i == 3)
      reason = last().not_symbolic;
  }
  EXPECT_NE(reason.find("is not that of the leading dimension"), std::string::npos) << reason;
  // For each of the four sizes one at the first start and one for the others; and once more for
  // those that were to be for all sizes.
  EXPECT_LE(compiles() - before, 10u);
  EXPECT_NE(last().symbolic.find("a0=39"), std::string::npos) << last().to_string();
}

TEST_F(Symbolic, SeveralThreadsWithSizes) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int64_t n = 2 + t; n < 60; n += 8) {
        Tensor x = input(n, {5}, 23);
        std::vector<float> y = (x * 2.0 + 0.5).to_vector<float>(), from = x.to_vector<float>();
        wrong += y.size() != from.size();
        for (size_t i = 0; i < y.size(); ++i)
          wrong += y[i] != from[i] * 2.f + 0.5f;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Symbolic, SeveralThreads) {
  Tensor x = arange(64 * 8).reshape({64, 8}).to(float32);
  x.eval();
  uint64_t before = compiles();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = t; i < 64; i += 8) {
        std::vector<float> row = (x[i] * 3.0 - 7.0).to_vector<float>();
        for (int k = 0; k < 8; ++k)
          wrong += row[k] != float(8 * i + k) * 3.f - 7.f;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(compiles() - before, 2u);
}

} // namespace
} // namespace weft
