// Values that parameters start from come into memory when they are read, from one program for all
// shapes.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "runtime/memory/allocator.h"
#include "tests/support/errors.h"
#include "weft/nn/init.h"
#include "weft/weft.h"

namespace weft::nn {
namespace {

using testing_support::error_of;

uint64_t compiles() {
  return statistics().compiles + statistics().disk_hits;
}

// The interpreter runs no programs for many sizes: there each shape is recorded.
bool has_sizes() {
  return config().backend == "cpu";
}

std::vector<std::byte> bytes(const Tensor &x) {
  const auto *data = static_cast<const std::byte *>(x.data_bytes());
  return std::vector<std::byte>(data, data + x.nbytes());
}

// Counts bytes, and fails while it is told to.
class CountingAllocator : public runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    if ((empty && bytes > given_if_empty) || left == 0)
      return absl::ResourceExhaustedError("the test's allocator is empty");
    if (left > 0)
      --left;
    allocated += bytes;
    return std::aligned_alloc(static_cast<size_t>(alignment),
                              static_cast<size_t>((bytes + alignment) / alignment * alignment));
  }
  void free(void *pointer, int64_t) override {
    std::free(pointer);
  }
  runtime::AllocatorStats stats() const override {
    return {};
  }
  std::atomic<int64_t> allocated{0};
  std::atomic<bool> empty{false};
  std::atomic<int64_t> given_if_empty{-1}; // in one piece
  std::atomic<int64_t> left{-1};           // allocations until it is empty; -1: it never is
};

struct WithAllocator {
  WithAllocator() {
    set_allocator(allocator);
  }
  ~WithAllocator() {
    synchronize();
    set_allocator(nullptr);
  }
  std::shared_ptr<CountingAllocator> allocator = std::make_shared<CountingAllocator>();
};

struct Net : Module {
  Conv2d c1 = child("c1", Conv2d(3, 7, 3)), c2 = child("c2", Conv2d(7, 9, 5, {.bias = false}));
  BatchNorm2d norm = child("norm", BatchNorm2d(9));
  Linear l1 = child("l1", Linear(31, 17)), l2 = child("l2", Linear(17, 1));
  Embedding embedding = child("embedding", Embedding(13, 6));
  LSTM lstm = child("lstm", LSTM(5, 4));
  LayerNorm last = child("last", LayerNorm(6));
};

TEST(Starting, OneProgramDrawsForAllShapes) {
  uint64_t before = compiles();
  Net net;
  eval(net.parameters());
  if (has_sizes())
    EXPECT_LE(compiles() - before, 2u) << "one for uniform samples, one for normal ones";
  before = compiles();
  Linear larger(1234, 567), smaller(3, 2);
  eval(larger.weight);
  eval(smaller.weight);
  if (has_sizes())
    EXPECT_EQ(compiles(), before);
}

// But for those that the dtype rounds to a bound, which uniform() has none of.
TEST(Starting, TheSamplesAreThoseOfTheCalls) {
  const std::map<DType, int> digits = {{float32, 24}, {float64, 53}, {bfloat16, 8}, {float16, 11}};
  for (DType dtype : {float32, float64, bfloat16, float16})
    for (const Shape &shape : {Shape{}, Shape{1}, Shape{2}, Shape{63}, Shape{65, 1}, Shape{3, 5, 7},
                               Shape{4, 3, 3, 3}, Shape{1000, 37}, Shape{0, 4}}) {
      std::string what = to_string(shape) + " " + name(dtype);
      manual_seed(11);
      Tensor u = uniform(shape, -0.25, 0.5, dtype), n = normal(shape, 0, 0.02, dtype),
             m = normal(shape, 1, 3, dtype), z = uniform(shape, 0, 1, dtype),
             after = default_generator().state();
      eval({u, n, m, z, after});
      manual_seed(11);
      DTypeScope scope(dtype);
      Tensor u2 = init::uniform(shape, -0.25, 0.5), n2 = init::normal(shape, 0, 0.02),
             m2 = init::normal(shape, 1, 3), z2 = init::uniform(shape, 0, 1);
      EXPECT_EQ(u2.dtype(), dtype);
      auto below = [&](const Tensor &samples, double bound) {
        return minimum(samples, bound * (1 - std::ldexp(1, -digits.at(dtype))));
      };
      // Read in another order than they were made in.
      EXPECT_EQ(bytes(below(z2, 1)), bytes(z)) << what;
      EXPECT_EQ(bytes(m2), bytes(m)) << what;
      EXPECT_EQ(bytes(n2), bytes(n)) << what;
      EXPECT_EQ(bytes(below(u2, 0.5)), bytes(u)) << what;
      EXPECT_EQ(bytes(default_generator().state()), bytes(after)) << what;
    }
  EXPECT_EQ(bytes(init::constant({3, 2}, 0.1)), bytes(full({3, 2}, 0.1)));
  EXPECT_EQ(bytes(init::constant({3}, 0.1, bfloat16)), bytes(full({3}, 0.1, bfloat16)));
}

// The bound included, which a narrow dtype rounds some samples to.
TEST(Starting, ARecordedFunctionDrawsTheSame) {
  DTypeScope scope(bfloat16);
  manual_seed(5);
  Tensor drawn = init::uniform({4096}, 0, 1);
  ASSERT_EQ(max(drawn).item<float>(), 1) << "no sample of this seed says anything";
  manual_seed(5);
  EXPECT_EQ(bytes(jit([](const Tensor &) { return init::uniform({4096}, 0, 1); })(zeros({1}))),
            bytes(drawn));
}

TEST(Starting, WhatIsLoadedBeforeItIsReadTakesNoMemory) {
  if (!has_sizes())
    return;
  Linear source(512, 1024);
  NamedTensors state = source.state();
  for (auto &[name, tensor] : state)
    tensor.eval();
  int64_t size = source.weight.nbytes() + source.bias.nbytes();
  WithAllocator with;
  Linear loaded(512, 1024);
  loaded.load_state(state);
  EXPECT_EQ(bytes(loaded.weight), bytes(source.weight));
  EXPECT_LT(with.allocator->allocated, size + size / 4) << "once, for what was loaded";
}

TEST(Starting, WhatIsConvertedBeforeItIsReadIsMadeInItsDtype) {
  manual_seed(3);
  Net net;
  manual_seed(3);
  Net half = to(Net(), bfloat16);
  eval(half.parameters());
  auto expected = net.state(), actual = half.state();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(bytes(actual[i].second), bytes(expected[i].second.to(bfloat16))) << actual[i].first;
  }
  // And made in it at once.
  manual_seed(3);
  DTypeScope scope(bfloat16);
  auto made = Net().state();
  for (size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(bytes(made[i].second), bytes(actual[i].second)) << made[i].first;
}

TEST(Starting, ConversionsOfAllShapesAreOneProgram) {
  Net net;
  eval(net.parameters());
  uint64_t before = compiles();
  Net exact = to(net, float64), half = to(net, float16);
  eval(exact.parameters());
  eval(half.parameters());
  if (has_sizes())
    EXPECT_LE(compiles() - before, 2u) << "one for each dtype";
  for (size_t i = 0; i < net.parameters().size(); ++i)
    EXPECT_EQ(bytes(exact.parameters()[i]), bytes(net.parameters()[i].to(float64)));
}

TEST(DTypeScope, ModulesMakeTheirTensorsInIt) {
  struct Own : Module {
    Parameter scale = parameter("scale", ones({2})), exact = parameter("exact", ones({2}, float64));
    Parameter steps = buffer("steps", zeros({}, int64)), mean = buffer("mean", zeros({3}));
    BatchNorm2d norm = child("norm", BatchNorm2d(3));
  };
  {
    DTypeScope scope(bfloat16);
    for (const auto &[name, tensor] : Own().state())
      EXPECT_EQ(tensor.dtype(), name == "steps" ? int64 : bfloat16) << name;
    {
      DTypeScope inner(float64);
      EXPECT_EQ(Linear(2, 3).weight.dtype(), float64);
    }
    EXPECT_EQ(Linear(2, 3).bias.dtype(), bfloat16);
    EXPECT_EQ(init::truncated_normal({3}).dtype(), bfloat16);
    EXPECT_EQ(init::orthogonal({3, 2}).dtype(), bfloat16);
  }
  EXPECT_EQ(Own().exact.dtype(), float64) << "as it was given, outside of all";
  EXPECT_EQ(Linear(2, 3).weight.dtype(), float32);
  EXPECT_EQ(error_of([] { DTypeScope scope(int32); }).kind(), ErrorKind::kDType);
}

TEST(Starting, AFailedAllocationLeavesItToBeMade) {
  if (!has_sizes())
    return;
  manual_seed(5);
  std::vector<float> expected = Linear(40, 30).weight.to_vector<float>();
  manual_seed(5);
  Linear linear(40, 30);
  WithAllocator with;
  with.allocator->empty = true;
  Error error = error_of([&] { linear(ones({1, 40})); });
  EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
  with.allocator->empty = false;
  EXPECT_EQ(linear.weight.to_vector<float>(), expected);
}

// Whichever it is, the program's own constants among them: it is memory that is missing.
TEST(Starting, EachAllocationMayFail) {
  if (!has_sizes())
    return;
  manual_seed(5);
  std::vector<float> expected = Linear(40, 30).weight.to_vector<float>();
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 50);
    WithAllocator with;
    with.allocator->left = n;
    bool has_failed = false;
    auto attempt = [&](auto make) {
      Error error = error_of(make);
      if (error.message() == "nothing was thrown")
        return;
      EXPECT_EQ(error.kind(), ErrorKind::kMemory) << n << ": " << error.what();
      has_failed = true;
      with.allocator->left = -1;
      make();
    };
    std::optional<Linear> linear;
    attempt([&] {
      manual_seed(5);
      linear.emplace(40, 30);
    });
    attempt([&] { linear->weight.eval(); });
    EXPECT_EQ(linear->weight.to_vector<float>(), expected) << n;
    if (!has_failed)
      break;
  }
}

// What is recorded is computed when a module is made.
TEST(Starting, AFailedAllocationStandsWhereTheModuleIsMade) {
  Tensor drawn = randn({300}), twice = drawn * 2;
  twice.eval();
  Tensor values = ones({8, 8, 2, 2}), bias = ones({8});
  WithAllocator with;
  with.allocator->given_if_empty = 64; // a generator's state
  with.allocator->empty = true;
  auto expect_here = [](const char *what, auto make, int line = __builtin_LINE()) {
    Error error = error_of(make);
    EXPECT_EQ(error.kind(), ErrorKind::kMemory) << what << ": " << error.what();
    EXPECT_EQ(error.file(), std::string(__FILE__)) << what << ": " << error.what();
    EXPECT_EQ(error.line(), line) << what << ": " << error.what();
  };
  expect_here("Linear", [] { Linear(4, 3); });
  expect_here("Linear, given", [&] { Linear(values.reshape({8, 32}), bias); });
  expect_here("Conv1d", [] { Conv1d(2, 3, 3); });
  expect_here("Conv2d", [] { Conv2d(2, 3, 3); });
  expect_here("Conv2d, given", [&] { Conv2d(values, bias); });
  expect_here("ConvTranspose2d", [] { ConvTranspose2d(2, 3, 3); });
  expect_here("Embedding", [] { Embedding(4, 3); });
  expect_here("LSTM", [] { LSTM(4, 3); });
  expect_here("GRU", [] { GRU(4, 3); });
  expect_here("MultiHeadAttention", [] { MultiHeadAttention(4, 2); });
  expect_here("TransformerBlock", [] { TransformerBlock(4, 2); });
  with.allocator->empty = false;
  EXPECT_EQ(drawn.to_vector<float>().size(), 300u);
}

TEST(Starting, TracesReadIt) {
  manual_seed(7);
  Linear expected(6, 4), eager(6, 4);
  Tensor x = ones({2, 6});
  std::vector<float> want = expected(x).to_vector<float>();
  manual_seed(7);
  Linear linear(6, 4);
  NoGrad no_grad;
  auto f = jit([&](const Tensor &input) { return linear(input); });
  EXPECT_EQ(f(x).to_vector<float>(), want);
  EXPECT_EQ(f(x).to_vector<float>(), want);
  manual_seed(7);
  Linear other(6, 4);
  Program program = trace([&](const Tensor &input) { return other(input); }, {x});
  EXPECT_EQ(program.run({x})[0].to_vector<float>(), want);
  // Written in a trace before it is read there.
  Tensor start = init::uniform({5}, 1);
  std::vector<float> before = init::copy_of(start).to_vector<float>();
  auto g = jit([&](const Tensor &input) {
    Tensor sum = start + input;
    start.copy_(sum);
    return sum;
  });
  g(ones({5})).eval();
  EXPECT_EQ(start.to_vector<float>()[0], before[0] + 1);
}

TEST(Starting, AWriteThroughAViewAndAnUndoneOneFindIt) {
  manual_seed(9);
  std::vector<float> values = init::uniform({4}, 1).to_vector<float>();
  manual_seed(9);
  Tensor viewed = init::uniform({4}, 1);
  viewed[1] = 5.0;
  EXPECT_EQ(viewed.to_vector<float>(), (std::vector<float>{values[0], 5, values[2], values[3]}));
  manual_seed(9);
  Tensor undone = init::uniform({4}, 1);
  if (config().backend == "reference")
    undone.eval(); // where no program draws for all sizes, the samples are an op of the call
  undone.copy_(index_select(arange(3).to(float32), 0, tensor<int64_t>({0, 1, 2, 7})));
  EXPECT_THROW(undone.eval(), Error);
  EXPECT_EQ(undone.to_vector<float>(), values);
}

} // namespace
} // namespace weft::nn
