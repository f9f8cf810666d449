// Writes of few rows of a large tensor leave the others as they are, wherever its value lies.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"

namespace weft {
namespace {

constexpr int64_t kRows = 4000, kColumns = 64;

Tensor counted(const Shape &shape, DType dtype) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return (arange(n) % 101).reshape(shape).to(dtype).clone().eval();
}

// What the same writes make on the host.
class Host {
public:
  explicit Host(const Tensor &x) : shape_(x.shape()), values_(x.to_vector<double>()) {}
  // Rows along dim of a tensor of three.
  void write(int64_t dim, int64_t start, int64_t step, const Tensor &rows) {
    std::vector<double> from = rows.to_vector<double>();
    size_t next = 0;
    Shape part = rows.shape();
    for (int64_t i = 0; i < part[0]; ++i)
      for (int64_t j = 0; j < part[1]; ++j)
        for (int64_t k = 0; k < part[2]; ++k) {
          int64_t at[] = {i, j, k};
          at[dim] = start + at[dim] * step;
          values_[static_cast<size_t>((at[0] * shape_[1] + at[1]) * shape_[2] + at[2])] =
              from[next++];
        }
  }
  const std::vector<double> &values() const {
    return values_;
  }

private:
  Shape shape_;
  std::vector<double> values_;
};

TEST(RowWrites, OneAfterTheOther) {
  Tensor buffer = counted({kRows, kColumns}, float32);
  std::vector<float> expected = buffer.to_vector<float>();
  for (int64_t i = 0; i < 40; ++i) {
    int64_t row = i * 97 % kRows;
    buffer[row] = full({kColumns}, 1000.0 + static_cast<double>(i));
    buffer.eval();
    for (int64_t j = 0; j < kColumns; ++j)
      expected[static_cast<size_t>(row * kColumns + j)] = 1000.f + static_cast<float>(i);
  }
  if (config().backend == "cpu") // the interpreter gives nothing away
    EXPECT_EQ(recent_evaluations().back().donated, 1);
  EXPECT_EQ(buffer.to_vector<float>(), expected);
}

TEST(RowWrites, AlongAnyDimOfAnyDtype) {
  for (DType dtype : {float32, float64, bfloat16, int64, int8, boolean})
    for (int64_t dim = 0; dim < 3; ++dim) {
      SCOPED_TRACE(std::string(name(dtype)) + " along " + std::to_string(dim));
      Shape shape{30, 70, 50}, part = shape;
      Tensor x = counted(shape, dtype);
      Host host(x);
      part[dim] = 3;
      for (int64_t start : {0, 5, 11}) {
        Tensor rows = (counted(part, float32) + 7.0).to(dtype).eval();
        x.narrow(dim, start, 3) = rows;
        host.write(dim, start, 1, rows);
        x.eval();
      }
      Tensor rows = (counted(part, float32) + 9.0).to(dtype).eval();
      x.slice(dim, 1, 22, 7) = rows;
      host.write(dim, 1, 7, rows);
      EXPECT_EQ(x.to_vector<double>(), host.values());
    }
}

// Who has the old value, or reads it in the same program, has it still.
TEST(RowWrites, LeaveTheOldValueToWhoReadsIt) {
  Tensor x = counted({kRows, kColumns}, float32), row = full({kColumns}, -1.0).eval();
  float sum = x.sum().item<float>(), old = x[5].sum().item<float>();
  Tensor before = x.sum(), copy = x.clone();
  x[5] = row;
  Tensor after = x.sum();
  eval({x, before, after});
  EXPECT_EQ(before.item<float>(), sum);
  EXPECT_EQ(after.item<float>(), sum - old - kColumns);
  EXPECT_EQ(copy.sum().item<float>(), sum);
  // What is written reads what it is written to.
  Tensor shifted = x[6].to_vector<float>().empty() ? x : x[6] * 2.0;
  std::vector<float> expected = shifted.to_vector<float>();
  x[6] = x[6] * 2.0;
  x[7] = x[6] + x[7];
  std::vector<float> seventh = (counted({kRows, kColumns}, float32)[7]).to_vector<float>();
  x.eval();
  EXPECT_EQ(x[6].to_vector<float>(), expected);
  for (size_t i = 0; i < seventh.size(); ++i)
    EXPECT_EQ(x[7].to_vector<float>()[i], seventh[i] + expected[i]);
}

TEST(RowWrites, OfAJittedFunction) {
  Tensor queue = counted({kRows, kColumns}, float32);
  std::vector<float> expected = queue.to_vector<float>();
  auto push = jit([&](const Tensor &rows) {
    queue.narrow(0, 100, 8) = rows;
    return queue.narrow(0, 99, 2).sum();
  });
  for (int i = 0; i < 3; ++i) {
    Tensor rows = full({8, kColumns}, static_cast<double>(i)).eval();
    float edge = 0;
    for (int64_t j = 0; j < kColumns; ++j)
      edge += expected[static_cast<size_t>(99 * kColumns + j)];
    EXPECT_EQ(push(rows).item<float>(), edge + static_cast<float>(i * kColumns));
    for (int64_t j = 0; j < 8 * kColumns; ++j)
      expected[static_cast<size_t>(100 * kColumns + j)] = static_cast<float>(i);
    EXPECT_EQ(queue.to_vector<float>(), expected);
  }
}

// Whether the last program wrote the buffer where it lies.
void expect_in_place(int64_t written = 1) {
  if (config().backend == "cpu") // the interpreter gives nothing away
    EXPECT_EQ(recent_evaluations().back().donated, written);
}

TEST(RowWrites, SeveralInOneProgram) {
  Tensor x = counted({kRows, kColumns}, float32), row = full({kColumns}, -1.0).eval();
  Host host(x.unsqueeze(0));
  auto write = [&](int64_t at, const Tensor &values) {
    host.write(1, at, 1, values.reshape({1, -1, kColumns}));
  };
  for (int64_t i : {3, 70}) {
    Tensor old = x[i + 2].clone().eval(), other = x[i + 3].clone().eval();
    x[i] = row;
    x[i + 1] = 2.0;
    x[i + 2] += row;
    x[i + 3] *= x[i] + x[i + 2];
    x.eval();
    expect_in_place();
    write(i, row);
    write(i + 1, full({kColumns}, 2.0));
    write(i + 2, old - 1.0);
    write(i + 3, other * (old - 2.0));
    EXPECT_EQ(x.to_vector<double>(), host.values());
  }
}

// What a write overwrites and a later one puts back is taken out before it, also where the line's
// temporaries could be computed again.
TEST(RowWrites, ThatSwapRows) {
  Tensor x = counted({kRows, kColumns}, float32);
  Host host(x.unsqueeze(0));
  for (int64_t i : {3, 70, 200}) {
    std::vector<Tensor> old = {x[i].clone().eval(), x[i + 9].clone().eval()};
    host.write(1, i, 1, old[1].reshape({1, 1, kColumns}));
    host.write(1, i + 9, 1, old[0].reshape({1, 1, kColumns}));
    Tensor row = x[i].clone();
    x[i] = x[i + 9];
    x[i + 9] = row;
    row = Tensor();
    x.eval();
    expect_in_place();
    EXPECT_EQ(x.to_vector<double>(), host.values());
    // And back.
    { Tensor other = x[i].clone(); x[i] = x[i + 9]; x[i + 9] = other; x.eval(); }
    expect_in_place();
    { Tensor other = x[i].clone(); x[i] = x[i + 9]; x[i + 9] = other; x.eval(); }
    EXPECT_EQ(x.to_vector<double>(), host.values());
  }
}

TEST(RowWrites, OfAPartAlongSeveralDims) {
  Tensor x = counted({40, 50, 60}, float32);
  std::vector<float> expected = x.to_vector<float>();
  auto at = [&](int64_t i, int64_t j, int64_t k) -> float & {
    return expected[static_cast<size_t>((i * 50 + j) * 60 + k)];
  };
  for (int64_t i : {0, 7, 39}) {
    x[i][i][2 * i / 3] = -5.0;
    at(i, i, 2 * i / 3) = -5;
    x.eval();
    expect_in_place();
    Tensor part = counted({2, 3, 60}, float32) * 0.5;
    x.slice(0, i % 30, i % 30 + 10, 5).narrow(1, i, 3) = part;
    std::vector<float> values = part.to_vector<float>();
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 3; ++b)
        for (int64_t c = 0; c < 60; ++c)
          at(i % 30 + 5 * a, i + b, c) = values[static_cast<size_t>((a * 3 + b) * 60 + c)];
    EXPECT_EQ(x.to_vector<float>(), expected);
  }
}

// Each element of a table from those before it, which nobody reads: few kernels, whatever its size.
TEST(RowWrites, OfATableThatIsFilledElementByElement) {
  for (int64_t n : {40, 200}) {
    Tensor table = zeros({n}).eval();
    std::vector<float> expected(static_cast<size_t>(n));
    table[0] = 1.0;
    expected[0] = 1;
    for (int64_t i = 1; i < n; ++i) {
      table[i] = table[i - 1] * 0.5 + 1.0;
      expected[static_cast<size_t>(i)] = expected[static_cast<size_t>(i - 1)] * 0.5f + 1;
    }
    table.eval();
    if (config().backend == "cpu")
      EXPECT_LE(recent_evaluations().back().kernels, 6);
    EXPECT_EQ(table.to_vector<float>(), expected);
  }
}

// A run that fails leaves the buffer as it was. One that checks indices writes in place all the
// same: what it checks comes first, also where it reads what was written.
TEST(RowWrites, BesideChecks) {
  Tensor x = counted({kRows, kColumns}, float32), good = tensor<int64_t>({5, 6}).eval(),
         bad = tensor<int64_t>({5, kRows}).eval();
  std::vector<float> expected = x.to_vector<float>();
  x[5] = 1.0;
  EXPECT_THROW(index_select(x, 0, bad).sum().item<float>(), Error);
  EXPECT_EQ(x.to_vector<float>(), expected);
  x[5] = 1.0;
  std::fill_n(expected.begin() + 5 * kColumns, kColumns, 1.f);
  float sixth = 0;
  for (int64_t j = 0; j < kColumns; ++j)
    sixth += expected[static_cast<size_t>(6 * kColumns + j)];
  Tensor sum = index_select(x, 0, good).sum();
  eval({x, sum});
  expect_in_place();
  EXPECT_EQ(sum.item<float>(), kColumns + sixth);
  EXPECT_EQ(x.to_vector<float>(), expected);
}

// Where data says where to write: a bad index is found before anything is written.
TEST(RowWrites, AtIndicesFromData) {
  Tensor x = counted({kRows, kColumns}, float32), rows = full({2, kColumns}, 3.0).eval(),
         good = tensor<int64_t>({-1, 6}).eval(), bad = tensor<int64_t>({6, kRows}).eval();
  std::vector<float> expected = x.to_vector<float>();
  auto step = [&](const Tensor &at) {
    x.index_put_({at}, rows);
    x.index_add_(0, at, rows);
    x[7] = 2.0;
  };
  step(bad);
  Error error = testing_support::error_of([&] { x.eval(); });
  EXPECT_NE(error.message().find("index 4000 at position 1 is out of range"), std::string::npos)
      << error.what();
  EXPECT_EQ(x.to_vector<float>(), expected);
  step(good);
  x.eval();
  expect_in_place();
  for (int64_t j = 0; j < kColumns; ++j) {
    for (int64_t row : {kRows - 1, int64_t(6)})
      expected[static_cast<size_t>(row * kColumns + j)] = 6;
    expected[static_cast<size_t>(7 * kColumns + j)] = 2;
  }
  EXPECT_EQ(x.to_vector<float>(), expected);
}

// What is checked depends on what is written: a copy is written, and nothing is lost.
TEST(RowWrites, BeforeIndicesThatAreWritten) {
  Tensor x = (arange(kRows * kColumns) % 7).reshape({kRows, kColumns}).eval();
  std::vector<int64_t> before = x.to_vector<int64_t>();
  for (bool fails : {true, false}) {
    x[3] = fails ? 7 : 2;
    Tensor picked = arange(7).index_select(0, x[3]);
    if (fails) {
      EXPECT_THROW(picked.eval(), Error);
      EXPECT_EQ(x.to_vector<int64_t>(), before);
    } else {
      EXPECT_EQ(picked.to_vector<int64_t>(), std::vector<int64_t>(kColumns, 2));
    }
  }
}

} // namespace
} // namespace weft
