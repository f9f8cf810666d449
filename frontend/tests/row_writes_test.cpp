// Writes of few rows of a large tensor leave the others as they are, wherever its value lies.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <vector>

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

// A run that fails leaves the buffer as it was, and one that checks indices writes it all the same.
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
  EXPECT_EQ(index_select(x, 0, good).sum().item<float>(), kColumns + sixth);
  EXPECT_EQ(x.to_vector<float>(), expected);
}

} // namespace
} // namespace weft
