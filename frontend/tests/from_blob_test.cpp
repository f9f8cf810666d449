// from_blob: whose memory it is, and when what is written there is seen.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;

template <typename F> void expect_refused(F write, int line = 0) {
  std::string text = message_of(write, ErrorKind::kState, line);
  EXPECT_NE(text.find("from_blob was given"), std::string::npos) << text;
}

TEST(FromBlob, ReadsTheMemoryItself) {
  Floats memory{1, 2, 3, 4, 5, 6};
  Tensor x = from_blob(memory.data(), {2, 3});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.dtype(), float32);
  EXPECT_EQ(x.data<float>(), memory.data());
  Tensor y = (x * 2).eval();
  memory[5] = 10;
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ((x * 2).to_vector<float>(), (Floats{2, 4, 6, 8, 10, 20}));
  EXPECT_EQ(x[1][2].item<float>(), 10);
}

TEST(FromBlob, TakesEachDTypeAndNoElements) {
  std::vector<uint8_t> bytes{7, 255};
  EXPECT_EQ(from_blob(bytes.data(), {2}, uint8).to(float32).to_vector<float>(), (Floats{7, 255}));
  const int64_t words[] = {int64_t(1) << 40};
  EXPECT_EQ(from_blob(words, {}, int64).item<int64_t>(), words[0]);
  EXPECT_EQ(sum(from_blob(nullptr, {0, 3})).item<float>(), 0);
}

TEST(FromBlob, AViewSeesWhatIsWrittenAfterItWasRead) {
  Floats memory{1, 2, 3, 4};
  Tensor x = from_blob(memory.data(), {2, 2});
  Tensor turned = x.t(), flat = x.reshape({4});
  EXPECT_EQ(turned.to_vector<float>(), (Floats{1, 3, 2, 4}));
  EXPECT_EQ(flat.data<float>()[3], 4); // the view keeps it for the pointer
  memory[3] = 9;
  EXPECT_EQ(turned.to_vector<float>(), (Floats{1, 3, 2, 9}));
  EXPECT_EQ((flat + 0.5).to_vector<float>(), (Floats{1.5, 2.5, 3.5, 9.5}));
}

TEST(FromBlob, ResultsHaveMemoryOfTheirOwn) {
  Floats memory{1, 2, 3};
  Tensor x = from_blob(memory.data(), {3});
  Tensor copy = x.clone(), of_view = x.reshape({3, 1}).clone(), same = (x * 1.0).eval(),
         target = zeros({3});
  target.copy_(x);
  Tensor row = x.unsqueeze(0).eval(), joined = cat({x}, 0).eval();
  memory = {7, 8, 9};
  for (const Tensor &each : {copy, of_view, same, target, joined})
    EXPECT_EQ(each.flatten().to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{7, 8, 9}));
  copy += 1; // which the memory does not see
  EXPECT_EQ(copy.to_vector<float>(), (Floats{2, 3, 4}));
  EXPECT_EQ(memory, (Floats{7, 8, 9}));
}

TEST(FromBlob, NoCallWritesTheMemory) {
  Floats memory{1, 2};
  Tensor x = from_blob(memory.data(), {2}), view = x[0];
  expect_refused([&] { x += 1; }, __LINE__);
  expect_refused([&] { x.copy_(zeros({2})); }, __LINE__);
  expect_refused([&] { x[0] = 3; }, __LINE__);
  expect_refused([&] { view.fill_(3); }, __LINE__);
  expect_refused([&] { x.detach().zero_(); }, __LINE__);
  expect_refused([&] { x.mutable_data<float>(); }, __LINE__);
  EXPECT_EQ(memory, (Floats{1, 2}));
  // Nor does a program in whose results memory it could lie.
  Tensor sum = x;
  for (int i = 0; i < 3; ++i)
    sum = sum + x;
  EXPECT_EQ(sum.to_vector<float>(), (Floats{4, 8}));
  EXPECT_EQ(memory, (Floats{1, 2}));
}

TEST(FromBlob, CallsTheDeleterOnceNothingReads) {
  auto memory = std::make_unique<Floats>(Floats{1, 2});
  void *deleted = nullptr;
  int calls = 0;
  Tensor y;
  {
    Tensor x = from_blob(memory->data(), {2}, [&](void *data) {
      deleted = data;
      ++calls;
    });
    y = x * 3;
  }
  EXPECT_EQ(calls, 0); // y is yet to read it
  EXPECT_EQ(y.to_vector<float>(), (Floats{3, 6}));
  synchronize();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(deleted, memory->data());
  // Of a tensor that is not made it is not called.
  EXPECT_MESSAGE(from_blob(nullptr, {2}, [&](void *) { ++calls; }), "data is null");
  EXPECT_EQ(calls, 1);
}

TEST(FromBlob, HasAGradient) {
  Floats memory{1, 2};
  Tensor x = from_blob(memory.data(), {2}).requires_grad_();
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 4}));
  EXPECT_TRUE(x.clone().requires_grad());
  NoGrad no_grad;
  expect_refused([&] { x -= x.grad(); }, __LINE__);
}

TEST(FromBlob, IsAnArgumentOfAJittedFunction) {
  Floats memory{1, 2};
  Tensor x = from_blob(memory.data(), {2});
  auto twice = jit([](const Tensor &x) { return x * 2; });
  auto same = jit([](const Tensor &x) { return std::pair(x, x.reshape({2, 1})); });
  auto captures = jit([&](const Tensor &y) { return x + y; });
  auto writes = jit([](Tensor x) { x += 1; });
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    memory = {float(i), 2};
    EXPECT_EQ(twice(x).to_vector<float>(), (Floats{2 * float(i), 4}));
    EXPECT_EQ(captures(ones({2})).to_vector<float>(), (Floats{float(i) + 1, 3}));
    auto [first, second] = same(x);
    results.push_back(first);
    results.push_back(second);
    Tensor own = ones({2});
    writes(own);
    EXPECT_EQ(own.to_vector<float>(), (Floats{2, 2}));
    expect_refused([&] { writes(x); });
  }
  eval(results);
  memory = {8, 9};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(results[2 * i].to_vector<float>(), (Floats{float(i), 2}));
    EXPECT_EQ(results[2 * i + 1].flatten().to_vector<float>(), (Floats{float(i), 2}));
  }
  auto inside = jit([&] { return from_blob(memory.data(), {2}); });
  std::string text = message_of([&] { inside(); }, ErrorKind::kState);
  EXPECT_NE(text.find("argument"), std::string::npos) << text;
}

TEST(FromBlob, Errors) {
  alignas(8) char bytes[16] = {};
  std::string text = message_of([&] { from_blob(bytes + 1, {2}); }, ErrorKind::kValue, __LINE__);
  EXPECT_NE(text.find("from_blob"), std::string::npos) << text;
  EXPECT_NE(text.find("4 bytes"), std::string::npos) << text;
  EXPECT_MESSAGE(from_blob(nullptr, {1}), "data is null");
  EXPECT_MESSAGE(from_blob(bytes, {-1}), "must not be negative");
}

TEST(FromBlob, IsNoGradient) {
  float memory[2] = {1, 2};
  Tensor x = tensor({1.f, 2.f}).set_requires_grad(), lent = from_blob(memory, {2}, float32);
  EXPECT_THROW(x.set_grad(lent), Error);
  x.set_grad(lent.clone());
  (x * 3.0).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 5}));
}

} // namespace
} // namespace weft
