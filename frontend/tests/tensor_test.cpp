// Tensors: promotion, broadcasting, views, writes in place, indexing, printing, errors.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

Tensor range(const Shape &shape) {
  int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.f);
  return Tensor::from<float>(values, shape);
}

TEST(Promotion, FollowsPyTorch) {
  Tensor f = zeros({2}), d = zeros({2}, float64), i = zeros({2}, int32), l = zeros({2}, int64),
         b = zeros({2}, boolean);
  Tensor d0 = zeros({}, float64), i0 = zeros({}, int64);
  EXPECT_EQ((f + d).dtype(), float64);
  EXPECT_EQ((f + d0).dtype(), float32);
  EXPECT_EQ((i + d0).dtype(), float64);
  EXPECT_EQ((i + i0).dtype(), int32);
  EXPECT_EQ((i + l).dtype(), int64);
  EXPECT_EQ((i + 1.5).dtype(), float32);
  EXPECT_EQ((i + 1).dtype(), int32);
  EXPECT_EQ((b + 1).dtype(), int64);
  EXPECT_EQ((f + 1.5).dtype(), float32);
  EXPECT_EQ((i / 2).dtype(), float32);
  EXPECT_EQ((i0 + 1.5).dtype(), float32);
  EXPECT_EQ(promote_types(uint8, int8), int16);
  EXPECT_EQ(promote_types(float16, bfloat16), float32);
  EXPECT_EQ(exp(i).dtype(), float32);
  EXPECT_EQ(sum(i).dtype(), int64);
  EXPECT_EQ((f < d).dtype(), boolean);
}

TEST(Broadcasting, AlignsAtTheEnd) {
  Tensor x = range({2, 1}) + range({3});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 1, 2, 3}));
}

TEST(Errors, NameOpShapesAndLine) {
  Tensor a = zeros({2, 3}), b = zeros({4});
  std::string text = message_of([&] { a + b; }, ErrorKind::kShape, __LINE__);
  EXPECT_NE(text.find("add"), std::string::npos) << text;
  EXPECT_NE(text.find("[2, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("[4]"), std::string::npos) << text;
  text = message_of([&] { matmul(a, zeros({2, 3})); }, ErrorKind::kShape, __LINE__);
  EXPECT_NE(text.find("matmul"), std::string::npos) << text;
  text = message_of([&] { a.reshape({4, 2}); }, ErrorKind::kShape, __LINE__);
  EXPECT_NE(text.find("6 elements"), std::string::npos) << text;
  text = message_of([&] { Tensor() + a; }, ErrorKind::kState, __LINE__);
  EXPECT_NE(text.find("undefined"), std::string::npos) << text;
  std::ostringstream stream;
  Tensor wrong = zeros({2}).index_select(0, tensor<int64_t>({7}));
  text = message_of([&] { stream << wrong; }, ErrorKind::kRun, __LINE__ - 1);
  EXPECT_NE(text.find("asked for at " + std::string(__FILE__) + ":" + std::to_string(__LINE__ - 1)),
            std::string::npos)
      << text;
  text = message_of([&] { a[2]; }, ErrorKind::kIndex, __LINE__);
  EXPECT_NE(text.find("x[2]: x has shape [2, 3]; the index must be in [-2, 1]"), std::string::npos)
      << text;
  EXPECT_NE(message_of([&] { softmax(a, 5); }, ErrorKind::kIndex, __LINE__), "");
  EXPECT_NE(message_of([&] { mean(zeros({2}, int64)); }, ErrorKind::kDType, __LINE__), "");
  EXPECT_NE(message_of([&] { a.item<float>(); }, ErrorKind::kShape, __LINE__), "");
  EXPECT_NE(message_of([&] { a.data<double>(); }, ErrorKind::kDType, __LINE__), "");
  const int64_t many = int64_t(1) << 40;
  EXPECT_NE(message_of([&] { zeros({many, many}); }, ErrorKind::kShape, __LINE__), "");
  EXPECT_NE(message_of([&] { zeros({-1}); }, ErrorKind::kShape, __LINE__), "");
}

Tensor library_function(const Tensor &x, Location location = Location::current()) {
  CallerScope scope(location);
  return matmul(x, x);
}

TEST(Errors, InsideALibraryPointToItsCaller) {
  Tensor x = zeros({2, 3});
  EXPECT_NE(message_of([&] { library_function(x); }, ErrorKind::kShape, __LINE__), "");
}

TEST(Views, ShowWrites) {
  Tensor x = range({2, 3});
  Tensor row = x[1], column = x.select(1, 0), t = x.t(), flat = x.reshape({6});
  x += 10;
  EXPECT_EQ(row.to_vector<float>(), (Floats{13, 14, 15}));
  EXPECT_EQ(t.to_vector<float>(), (Floats{10, 13, 11, 14, 12, 15}));
  column.fill_(0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 11, 12, 0, 14, 15}));
  t[2] = 7.0;
  EXPECT_EQ(flat.to_vector<float>(), (Floats{0, 11, 7, 0, 14, 7}));
  x.index({Slice(), Slice(0, 2)}).t()[0] *= 2;
  flat[5] = -1;
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 11, 7, 0, 14, -1}));
  Tensor copy = x.clone();
  x.zero_();
  EXPECT_EQ(copy.to_vector<float>()[1], 11.f);
}

TEST(Views, SurviveEvaluations) {
  Tensor x = range({2, 2}) + 1;
  Tensor t = x.t();
  Tensor y = matmul(x, t);
  y.eval();
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 3, 2, 4}));
  x.add_(1);
  y = t + t;
  EXPECT_EQ(y.to_vector<float>(), (Floats{4, 8, 6, 10}));
}

TEST(Views, OfExpandedTensorsAreReadOnly) {
  Tensor x = zeros({1, 3}).eval();
  Tensor y = x.expand({2, 3});
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_NE(message_of([&] { y += 1; }, ErrorKind::kState, __LINE__), "");
  x += 1;
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 1, 1, 1, 1, 1}));
}

// A part of repeats in which nothing is repeated is a part of what they repeat, as in PyTorch.
TEST(Views, PartsOfExpandedTensorsAreWritten) {
  Tensor x = zeros({1, 3}), y = x.expand({2, 3});
  y[0] = 1.0;
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 1, 1, 1, 1, 1}));
  y[1] = y[0] + tensor({0.f, 1.f, 2.f});
  y.index({-1, Slice(1)}) *= 2;
  y.slice(0, 1) += 10;
  EXPECT_EQ(x.to_vector<float>(), (Floats{11, 14, 16}));
  Tensor row = zeros({3}), wide = row.expand({4, 2, 3});
  wide.index({3, 1, 2}) = 5.0;
  wide.slice(2, 0, 3, 2).index({2, 0}) += 1;
  EXPECT_EQ(row.to_vector<float>(), (Floats{1, 0, 6}));
  EXPECT_NE(message_of([&] { wide[1] = 1.0; }, ErrorKind::kState, __LINE__), "");
  EXPECT_NE(message_of([&] { y.select(1, 0).fill_(1); }, ErrorKind::kState, __LINE__), "");
  EXPECT_EQ(wide.slice(0, 2, 2).shape(), (Shape{0, 2, 3}));
  // The same of what has a history, of which each view is a tensor of its own.
  Tensor w = ones({1, 3}).set_requires_grad(), known = w * 2, both = known.expand({2, 3});
  both[0].mul_(3);
  both[1][2] += 1;
  both.index({-1, Slice(1)}) *= 2;
  EXPECT_EQ(known.to_vector<float>(), (Floats{6, 12, 14}));
  known.sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{6, 12, 12}));
  // Reading is what it was, and so are gradients.
  Tensor leaf = range({2, 1}).set_requires_grad(), all = leaf.expand({3, 2, 4});
  Tensor part = all.index({Slice(0, 3, 2), 1, Slice(1)});
  EXPECT_EQ(part.to_vector<float>(), (Floats{1, 1, 1, 1, 1, 1}));
  part.sum().backward();
  EXPECT_EQ(leaf.grad().to_vector<float>(), (Floats{0, 6}));
}

// What is recorded to read the view and add it up.
uint64_t ops_of(const Tensor &view) {
  uint64_t before = statistics().recorded_ops;
  Tensor total = view.sum();
  return statistics().recorded_ops - before;
}

// Not the row as well, in a buffer that has a history since the first write.
TEST(Views, APartOfAPartIsWrittenAlone) {
  Tensor y = ones({}).set_requires_grad(), buffer = zeros({2, 5});
  auto ops_of_write = [&](int64_t column) {
    uint64_t before = statistics().recorded_ops;
    buffer[1][column] = y;
    return statistics().recorded_ops - before;
  };
  uint64_t first = ops_of_write(0);
  EXPECT_EQ(ops_of_write(3), first);
  buffer.sum().backward();
  EXPECT_EQ(y.grad().item<float>(), 2);
}

TEST(Views, SlicesOfSlicesAreOneSlice) {
  Tensor x = range({40}).eval(), chain = x;
  for (int i = 0; i < 30; ++i)
    chain = chain.slice(0, 1);
  EXPECT_EQ(chain.shape(), Shape{10});
  EXPECT_EQ(ops_of(chain), ops_of(x.slice(0, 30)));
  chain.index_put_({0}, -1);
  EXPECT_EQ(x[30].item<float>(), -1.f);
  // Also where each is a handle without a history of the ones before.
  Tensor detached = x;
  for (int i = 0; i < 30; ++i)
    detached = detached.slice(0, 1).detach();
  EXPECT_EQ(ops_of(detached), ops_of(x.slice(0, 30)));
  // Reversed twice it is what it was.
  Tensor twice = x.slice(0, {}, {}, -1).slice(0, {}, {}, -1);
  EXPECT_EQ(ops_of(twice) + 1, ops_of(x.slice(0, 30)));
  twice.slice(0, {}, {}, -1)[0] = -2;
  EXPECT_EQ(x[39].item<float>(), -2.f);
  // What lies between keeps them apart.
  Tensor matrix = range({4, 6}), part = matrix.slice(0, 1).t().slice(0, 1, {}, 2).reshape({9});
  EXPECT_EQ(part.slice(0, 7, 0, -3).to_vector<float>(), (Floats{17, 15, 13}));
  part.slice(0, 7, 0, -3).zero_();
  EXPECT_EQ(matrix[2].to_vector<float>(), (Floats{12, 0, 14, 0, 16, 0}));
  EXPECT_EQ(matrix[1].to_vector<float>(), (Floats{6, 7, 8, 9, 10, 11}));
}

// The second is of the first, not of what lies behind it: as of a copy of the first.
TEST(Views, SlicesOfSlicesAreThoseOfCopies) {
  const std::vector<Slice> slices = {Slice(1),    Slice(-1, {}, -2), Slice(5, 1, -1),
                                     Slice(2, 2), Slice(3, 4),       Slice({}, {}, 3)};
  Tensor x = range({7, 2}).eval();
  std::vector<Tensor> got, expected;
  for (const Slice &a : slices)
    for (const Slice &b : slices) {
      Tensor copy = x.index({a}).clone();
      got.push_back(x.index({a}).index({b}));
      expected.push_back(copy.index({b}).clone());
      // And written through.
      Tensor whole = x.clone(), again = x.clone();
      whole.index({a}).index({b}).mul_(-2.0);
      copy.index({b}).mul_(-2.0);
      again.index_put_({a}, copy);
      got.push_back(whole);
      expected.push_back(again);
    }
  eval(got);
  eval(expected);
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(got[i].shape(), expected[i].shape());
    EXPECT_EQ(got[i].to_vector<float>(), expected[i].to_vector<float>());
  }
}

TEST(Views, SlicesOfSlicesHaveGradients) {
  Tensor w = range({8}).set_requires_grad();
  Tensor y = w.slice(0, 1).slice(0, {}, {}, -2).slice(0, 1, 3);
  EXPECT_EQ(y.to_vector<float>(), (Floats{5, 3}));
  (y * y).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{0, 0, 0, 6, 0, 10, 0, 0}));
}

// A leaf that was made without a history is a view of the storage, not of the leaf before it.
TEST(Views, ChainsOfLeavesStayFlat) {
  Tensor storage = range({12}).eval(), x = storage, middle;
  auto without_history = [](const Tensor &of, int64_t start) {
    NoGrad no_grad;
    return of.slice(0, start);
  };
  for (int i = 0; i < 6; ++i) {
    x = without_history(x, 1).set_requires_grad();
    if (i == 2)
      middle = x;
  }
  Tensor direct = without_history(storage, 6).set_requires_grad();
  EXPECT_EQ(ops_of(x), ops_of(direct));
  // Through a view that has the leaf's history, too.
  Tensor inner = without_history(direct.slice(0, 1), 1);
  EXPECT_FALSE(inner.requires_grad());
  EXPECT_EQ(ops_of(inner), ops_of(without_history(storage, 8)));

  (x * x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{12, 14, 16, 18, 20, 22}));
  EXPECT_FALSE(middle.grad().defined());
  EXPECT_FALSE(storage.requires_grad());
  EXPECT_NE(message_of([&] { x.mul_(2); }, ErrorKind::kState, __LINE__), "");
  {
    NoGrad no_grad;
    x.mul_(2);
  }
  EXPECT_EQ(storage.to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5, 12, 14, 16, 18, 20, 22}));
  EXPECT_EQ(middle.to_vector<float>(), (Floats{3, 4, 5, 12, 14, 16, 18, 20, 22}));
  (middle * x.sum()).sum().backward();
  EXPECT_EQ(middle.grad().to_vector<float>(), Floats(9, 102));
}

// Each is a view of a leaf that no longer is one: these do form a chain.
TEST(Views, ChainsOfLeavesMayBeLong) {
  Tensor storage = ones({4}).eval(), x = storage;
  for (int i = 0; i < 1000; ++i) {
    Tensor view = x.reshape({4});
    x.set_requires_grad(false);
    x = view.set_requires_grad();
  }
  (x * 3).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), Floats(4, 3));
  {
    NoGrad no_grad;
    x.add_(1);
  }
  EXPECT_EQ(storage.to_vector<float>(), Floats(4, 2));
}

TEST(InPlace, KeepsDTypeAndShape) {
  Tensor x = zeros({2}, int32);
  EXPECT_NE(message_of([&] { x += 1.5; }, ErrorKind::kDType, __LINE__), "");
  EXPECT_NE(message_of([&] { x += zeros({3, 2}, int32); }, ErrorKind::kShape, __LINE__), "");
  x += 3;
  x *= 2;
  x -= Tensor(x);
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{0, 0}));
  Tensor handle = x;
  x += 5;
  EXPECT_EQ(handle.to_vector<int32_t>(), (std::vector<int32_t>{5, 5}));
  EXPECT_GT(handle.version(), 3u);
}

TEST(InPlace, AssignmentsLeaveOutOnesInFront) {
  Tensor x = zeros({2, 3}), row = tensor({1.f, 2.f, 3.f});
  x[0] = row.reshape({1, 1, 3});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 0, 0, 0}));
  x.index_put_({1, Slice()}, row.reshape({1, 3}) * 2.0);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 2, 4, 6}));
  x.index_put_({tensor<int64_t>({0, 1})}, row.reshape({1, 1, 3}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(Data, PointersAndWrites) {
  Tensor x = range({3});
  Tensor y = x + 1;
  float *data = x.mutable_data<float>();
  data[0] = 100;
  EXPECT_EQ(y.to_vector<float>(), (Floats{1, 2, 3})); // recorded before the write
  EXPECT_EQ((x + 1).to_vector<float>(), (Floats{101, 2, 3}));
  EXPECT_EQ(x.data<float>()[0], 100.f);
  EXPECT_EQ((Tensor::from<bool>(std::vector<bool>{true, false})).to_vector<bool>(),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(scalar(2.5).item<int64_t>(), 2);
}

// What is recorded reads the memory when it runs: a pointer is asked for again after each read.
TEST(Data, APointerIsAskedForAgainAfterEachRead) {
  Tensor x = zeros({2}), sum = zeros({2});
  for (int i = 1; i < 4; ++i) {
    float *data = x.mutable_data<float>();
    data[0] = static_cast<float>(i);
    data[1] = static_cast<float>(10 * i);
    sum = sum + x * 2;
  }
  EXPECT_EQ(sum.to_vector<float>(), (Floats{12, 120}));
}

TEST(Indexing, NoneLeavesAnEndOfASliceOpen) {
  Tensor x = range({4, 3});
  auto expect_same = [&](Slice slice, Slice same) {
    EXPECT_EQ(x.index({slice}).to_vector<float>(), x.index({same}).to_vector<float>());
  };
  expect_same(Slice(None, 2), Slice(0, 2));
  expect_same(Slice(1, None), Slice(1, 4));
  expect_same(Slice(None, None, -1), Slice({}, {}, -1));
  expect_same(Slice(None, std::optional<int64_t>(3)), Slice(size_t(0), 3));
  EXPECT_EQ(x.index({None, Slice(None, 2), -1}).shape(), (Shape{1, 2}));
}

TEST(Create, ANumberIsATensorWithoutDims) {
  for (const Tensor &x : {tensor(3.0), tensor(3.f), tensor(3, float32)}) {
    EXPECT_EQ(x.dtype(), float32);
    EXPECT_EQ(x.shape(), Shape());
    EXPECT_EQ(x.item<float>(), 3.f);
  }
  EXPECT_EQ(tensor(3).dtype(), int64);
  EXPECT_EQ(tensor(true).dtype(), boolean);
  EXPECT_EQ(tensor({3}).shape(), (Shape{1}));
}

TEST(Indexing, FollowsNumpy) {
  Tensor x = range({3, 4});
  EXPECT_EQ(x.index({-1}).to_vector<float>(), (Floats{8, 9, 10, 11}));
  EXPECT_EQ(x.index({Slice(), 1}).to_vector<float>(), (Floats{1, 5, 9}));
  EXPECT_EQ(x.index({Slice({}, {}, -1), Slice(1, -1)}).to_vector<float>(),
            (Floats{9, 10, 5, 6, 1, 2}));
  EXPECT_EQ(x.index({Ellipsis, None, 0}).shape(), (Shape{3, 1}));
  EXPECT_EQ(x.index({Slice(5, 9)}).shape(), (Shape{0, 4}));
  EXPECT_EQ(x.index({Slice({}, {}, 2)}).to_vector<float>(), (Floats{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(x.index({Slice(-2, {}, -1), 0}).to_vector<float>(), (Floats{4, 0}));
  x.index_put_({Slice({}, {}, -2), 0}, tensor({-1.f, -2.f}));
  EXPECT_EQ(x.index({Slice(), 0}).to_vector<float>(), (Floats{-2, 4, -1}));
}

TEST(Indexing, ByStepsOfAnySize) {
  Tensor x = range({3});
  EXPECT_EQ(x.index({Slice({}, {}, INT64_MAX)}).to_vector<float>(), (Floats{0}));
  EXPECT_EQ(x.index({Slice({}, {}, INT64_MIN)}).to_vector<float>(), (Floats{2}));
  EXPECT_EQ(x.index({Slice(1, INT64_MAX, INT64_MAX)}).to_vector<float>(), (Floats{1}));
  EXPECT_EQ(x.index({Slice(INT64_MAX, INT64_MIN, INT64_MIN + 1)}).to_vector<float>(), (Floats{2}));
  EXPECT_EQ(x.slice(0, 3, {}, INT64_MAX).shape(), Shape{0});
  x.index({Slice({}, {}, INT64_MIN)}).index({Slice({}, {}, INT64_MAX)}).fill_(7);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 7}));
}

TEST(Shapes, MovementFunctions) {
  Tensor x = range({2, 3});
  EXPECT_EQ(cat({x, x}, 1).shape(), (Shape{2, 6}));
  EXPECT_EQ(stack({x, x}, -1).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(stack({x[0], x[1]}).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(split(x, 2, 1)[1].to_vector<float>(), (Floats{2, 5}));
  EXPECT_EQ(chunk(range({5}), 2)[1].to_vector<float>(), (Floats{3, 4}));
  EXPECT_EQ(x.unsqueeze(-1).squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(range({2, 3, 4}).flatten(1).shape(), (Shape{2, 12}));
  EXPECT_EQ(range({2, 3, 4}).permute({2, 0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(tril(ones({3, 3})).to_vector<float>(), (Floats{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(triu(ones({2, 3}), 1).to_vector<float>(), (Floats{0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(eye(2).to_vector<float>(), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(arange(2, 9, 3).to_vector<int64_t>(), (Ints{2, 5, 8}));
  EXPECT_EQ(linspace(0, 1, 3).to_vector<float>(), (Floats{0, 0.5, 1}));
}

TEST(Functions, Values) {
  Tensor x = tensor({{1.f, 2.f}, {3.f, -4.f}});
  EXPECT_EQ(sum(x, 0).to_vector<float>(), (Floats{4, -2}));
  EXPECT_EQ(max(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(min(x).item<float>(), -4.f);
  EXPECT_EQ(min(tensor<int64_t>({INT64_MIN, 3})).item<int64_t>(), INT64_MIN);
  EXPECT_FLOAT_EQ(var(x).item<float>(), 9.6666667f);
  EXPECT_EQ(argmax(x, 1).to_vector<int64_t>(), (Ints{1, 0}));
  EXPECT_EQ(clamp(x, -1.0, 2.0).to_vector<float>(), (Floats{1, 2, 2, -1}));
  EXPECT_EQ(where(x > 1, x, 0).to_vector<float>(), (Floats{0, 2, 3, 0}));
  EXPECT_EQ(masked_fill(x, x < 0, 9).to_vector<float>(), (Floats{1, 2, 3, 9}));
  EXPECT_EQ(matmul(tensor({1.f, 2.f}), x).to_vector<float>(), (Floats{7, -6}));
  EXPECT_EQ(matmul(tensor({1.f, 2.f}), tensor({3.f, 4.f})).shape(), (Shape{}));
  EXPECT_EQ(linear(x, tensor({{1.f, 1.f}}), tensor({10.f})).to_vector<float>(), (Floats{13, 9}));
  EXPECT_EQ(embedding(tensor<int64_t>({1, 0, 1}), x).shape(), (Shape{3, 2}));
  EXPECT_EQ(gather(x, 1, tensor<int64_t>({{1}, {0}})).to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(one_hot(tensor<int64_t>({1, 0}), 3).to_vector<int64_t>(), (Ints{0, 1, 0, 1, 0, 0}));
  Floats p = softmax(tensor({0.f, 0.f}), 0).to_vector<float>();
  EXPECT_FLOAT_EQ(p[0], 0.5f);
  EXPECT_FLOAT_EQ(cross_entropy(zeros({2, 4}), tensor<int64_t>({0, -100})).item<float>(),
                  std::log(4.f));
  EXPECT_EQ((!(x > 1) | (x == 3)).to_vector<bool>(), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ((5 - tensor<int64_t>({2})).item<int64_t>(), 3);
}

TEST(Random, StreamsRepeat) {
  manual_seed(7);
  Floats a = randn({5}).to_vector<float>(), b = randn({5}).to_vector<float>();
  EXPECT_NE(a, b);
  manual_seed(7);
  EXPECT_EQ(randn({5}).to_vector<float>(), a);
  Tensor state = default_generator().state();
  Floats c = rand({3}).to_vector<float>();
  default_generator().set_state(state);
  EXPECT_EQ(rand({3}).to_vector<float>(), c);
  for (int64_t i : randint(-2, 3, {100}).to_vector<int64_t>())
    EXPECT_TRUE(i >= -2 && i < 3);
  Tensor x = ones({1000});
  float kept = sum(cast(dropout(x, 0.25) > 0, float32)).item<float>();
  EXPECT_NEAR(kept, 750, 60);
  EXPECT_TRUE(dropout(x, 0.25, false).is_same(x));
}

// floor(u * count) of a u of 72 bits, three samples, the highest first.
TEST(Random, IntegersOfWideRanges) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(),
                    most = std::numeric_limits<int64_t>::max();
  const std::pair<int64_t, int64_t> ranges[] = {{0, (1 << 24) + 1},
                                                {-5, int64_t(1) << 40},
                                                {-(int64_t(1) << 62), (int64_t(1) << 62) + 12345},
                                                {least, most},
                                                {least, 0},
                                                {-1, most}};
  for (auto [low, high] : ranges) {
    Generator a(3), b(3);
    Ints drawn = randint(low, high, {4, 25}, a).to_vector<int64_t>();
    std::vector<double> digits[3];
    for (std::vector<double> &digit : digits)
      digit = rand({4, 25}, b, float64).to_vector<double>();
    EXPECT_EQ(a.state().to_vector<int64_t>(), b.state().to_vector<int64_t>());
    __extension__ using Wide = unsigned __int128;
    Wide count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    for (size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_TRUE(drawn[i] >= low && drawn[i] < high) << drawn[i];
      // 24 bits of u after the others, so that no product has more than 128.
      Wide offset = 0;
      for (int place = 2; place >= 0; --place)
        offset = (static_cast<Wide>(digits[place][i] * 0x1p24) * count + offset) >> 24;
      EXPECT_EQ(drawn[i],
                static_cast<int64_t>(static_cast<uint64_t>(low) + static_cast<uint64_t>(offset)));
    }
  }
  EXPECT_MESSAGE(randint(5, 5, {2}), "must hold at least one integer");
  EXPECT_MESSAGE(randint(most, least, {2}), "must hold at least one integer");
}

TEST(Random, UniformSamplesLieBelowTheirBound) {
  manual_seed(1);
  auto most = [](double low, double high, DType dtype, int64_t count = 100000) {
    Tensor x = uniform({count}, low, high, dtype);
    EXPECT_GE(x.min().item<double>(), low);
    return x.max().item<double>();
  };
  EXPECT_EQ(most(0, 1, bfloat16), 1 - 0x1p-8);
  EXPECT_EQ(most(0, 1, float16), 1 - 0x1p-11);
  EXPECT_LT(most(-2, 0, bfloat16), 0);
  EXPECT_EQ(most(-2, -1, bfloat16), -1 - 0x1p-7);
  EXPECT_EQ(most(2048, 2050, float16), 2048);
  EXPECT_LT(most(1e6, 1e6 + 1, float32), 1e6 + 1);
  EXPECT_EQ(most(0x1p24, 0x1p24 + 2, float32), 0x1p24);
  EXPECT_EQ(most(0x1p53, 0x1p53 + 2, float64), 0x1p53);
  EXPECT_EQ(most(3, 3, float32), 3);
}

TEST(Printing, OfDTypesAndDevices) {
  std::ostringstream stream;
  stream << ones({1}).dtype() << " " << bfloat16 << " " << boolean << " " << ones({1}).device();
  EXPECT_EQ(stream.str(), "float32 bfloat16 bool " + current_device().name());
}

TEST(Printing, ShowsColumnsOfElements) {
  EXPECT_EQ(tensor({{1.f, 2.5f}, {-3.f, 4.f}}).to_string(),
            "[[ 1.0000,  2.5000],\n [-3.0000,  4.0000]]");
  EXPECT_EQ(tensor<int64_t>({1, -20}).to_string(), "[  1, -20]");
  EXPECT_EQ(scalar(3.0).to_string(), "3.");
  EXPECT_EQ((tensor({1.f}) > 0).to_string(), "[true]");
  EXPECT_EQ(arange(2000).to_string(), "[   0,    1,    2, ..., 1997, 1998, 1999]");
  EXPECT_EQ(zeros({0, 3}).to_string(), "[]");
  EXPECT_EQ(zeros({2, 0}).to_string(), "[]");
}

// As numpy and PyTorch do: what is hidden decides nothing.
TEST(Printing, TheShownElementsDecideTheFormat) {
  Tensor x = zeros({2000}), i = zeros({2000}, int64), m = range({100, 100});
  x[1000] = 1.5e9;
  EXPECT_EQ(x.to_string(), "[0., 0., 0., ..., 0., 0., 0.]");
  i[1000] = -123456;
  EXPECT_EQ(i.to_string(), "[0, 0, 0, ..., 0, 0, 0]");
  m[50][50] = 0.5;
  EXPECT_EQ(m.to_string(), "[[   0.,    1.,    2., ...,   97.,   98.,   99.],\n"
                           " [ 100.,  101.,  102., ...,  197.,  198.,  199.],\n"
                           " [ 200.,  201.,  202., ...,  297.,  298.,  299.],\n"
                           " ...,\n"
                           " [9700., 9701., 9702., ..., 9797., 9798., 9799.],\n"
                           " [9800., 9801., 9802., ..., 9897., 9898., 9899.],\n"
                           " [9900., 9901., 9902., ..., 9997., 9998., 9999.]]");
  x[1999] = 1.5e9;
  EXPECT_EQ(x.to_string(), "[0.0000e+00, 0.0000e+00, 0.0000e+00, ..., 0.0000e+00, 0.0000e+00,"
                           " 1.5000e+09]");
}

// uint8 above 127: nothing takes it for a negative number.
TEST(Tensor, UnsignedBytes) {
  Tensor x = tensor<uint8_t>({200, 7, 255}), y = tensor<uint8_t>({3, 130, 0});
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ((x + y).to_vector<uint8_t>(), (Bytes{203, 137, 255}));
  EXPECT_EQ((x * y).to_vector<uint8_t>(), (Bytes{88, 142, 0}));
  EXPECT_EQ((-x).to_vector<uint8_t>(), (Bytes{56, 249, 1}));
  EXPECT_EQ(maximum(x, y).to_vector<uint8_t>(), (Bytes{200, 130, 255}));
  EXPECT_EQ(minimum(x, y).to_vector<uint8_t>(), (Bytes{3, 7, 0}));
  EXPECT_EQ(abs(x).to_vector<uint8_t>(), (Bytes{200, 7, 255}));
  EXPECT_EQ(relu(x).to_vector<uint8_t>(), (Bytes{200, 7, 255}));
  EXPECT_EQ((x > y).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ((x / y).to_vector<float>(),
            (std::vector<float>{200.f / 3, 7.f / 130, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(x.sum().item<int64_t>(), 462);
  EXPECT_EQ(x.to(float32).to_vector<float>(), (std::vector<float>{200, 7, 255}));
  EXPECT_EQ(x.to(int16).to_vector<int16_t>(), (std::vector<int16_t>{200, 7, 255}));
  EXPECT_EQ(x.to(int8).to_vector<int8_t>(), (std::vector<int8_t>{-56, 7, -1}));
  EXPECT_EQ((x.to(int8) + x).to_vector<int16_t>(), (std::vector<int16_t>{144, 14, 254}));
  EXPECT_EQ(x.to(int8).to(uint8).to_vector<uint8_t>(), (Bytes{200, 7, 255}));
  EXPECT_EQ(tensor({-1.f, -0.5f, 255.9f, 1e9f, 200.5f}).to(uint8).to_vector<uint8_t>(),
            (Bytes{0, 0, 255, 255, 200}));
}

} // namespace
} // namespace weft
