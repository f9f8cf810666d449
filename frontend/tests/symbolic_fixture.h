// What tests of symbolic programs share: f at many sizes, as one program and as a program for each
// size.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "weft/weft.h"

namespace weft {

inline uint64_t compiles() {
  return statistics().compiles + statistics().disk_hits;
}

inline Evaluation last() {
  return recent_evaluations().back();
}

// Different in every test, so that no test finds the programs of another.
class Symbolic : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
  }
  void TearDown() override {
    set_config(before_);
  }
  // The interpreter takes static shapes, and says so; slice starts vary on every backend.
  bool has_sizes() const {
    return before_.backend == "cpu";
  }

  // f at each of these sizes, of a tensor of `size` rows: as programs come, and as a program for
  // each size. Both must have the same bits.
  void compare(const std::vector<int64_t> &sizes, int64_t most_compiles,
               const std::function<std::vector<Tensor>(int64_t)> &f) {
    std::vector<std::vector<std::vector<std::byte>>> results;
    uint64_t compiled = 0;
    auto bytes = [](Tensor x) {
      const auto *data = static_cast<const std::byte *>(x.data_bytes());
      return std::vector<std::byte>(data, data + x.numel() * byte_size(x.dtype()));
    };
    for (int64_t size : sizes) {
      results.emplace_back();
      std::vector<Tensor> outputs = f(size);
      uint64_t before = compiles();
      eval(outputs);
      compiled += compiles() - before; // reading a view afterwards may take a program of its own
      notes_ += last().to_string() + "\n";
      for (Tensor &output : outputs)
        results.back().push_back(bytes(output));
    }
    if (has_sizes())
      EXPECT_LE(compiled, static_cast<uint64_t>(most_compiles)) << notes_;
    Config options = config();
    options.symbolic = false;
    options.cache_entries = 1;
    set_config(options);
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<Tensor> outputs = f(sizes[i]);
      eval(outputs);
      EXPECT_TRUE(last().symbolic.empty());
      for (size_t k = 0; k < outputs.size(); ++k)
        EXPECT_TRUE(results[i][k] == bytes(outputs[k])) << "size " << sizes[i] << ", output " << k;
    }
    set_config(before_);
  }

  Config before_;
  std::string notes_;
};

// Different numbers everywhere; the rows of a smaller one are those of a larger one.
inline Tensor rows(int64_t n, const Shape &row, double seed) {
  int64_t size = 1;
  for (int64_t dim : row)
    size *= dim;
  std::vector<float> values(static_cast<size_t>(n * size));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(0.37 * double(i) + seed) * 2.5);
  Shape shape = {n};
  shape.insert(shape.end(), row.begin(), row.end());
  return Tensor::from(values, shape);
}
inline Tensor input(int64_t n, const Shape &row, double seed) {
  Tensor x = rows(n, row, seed);
  x.eval();
  return x;
}

} // namespace weft
