// MathScope and Config::math: which programs compute otherwise, and when.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

using Floats = std::vector<float>;

// Whole numbers, so that products are exact.
Tensor matrix() {
  return randint(-3, 4, {64, 64}).to(DType::kFloat32).eval();
}

class MathTest : public testing::Test {
protected:
  // The kernels of the last evaluation: one where the activation is a kernel of its own, none where
  // the library takes it in.
  static int64_t kernels() {
    return recent_evaluations().back().kernels;
  }
  Tensor x = matrix(), w = matrix();
  Floats call() const {
    return relu(matmul(x, w)).to_vector<float>();
  }
};

TEST_F(MathTest, AScopeIsForWhatIsEvaluatedInIt) {
  Floats before = call();
  EXPECT_EQ(kernels(), 1);
  Tensor recorded;
  {
    MathScope fast(Math::kFast);
    EXPECT_EQ(current_math(), Math::kFast);
    EXPECT_EQ(call(), before);
    EXPECT_EQ(kernels(), 0);
    {
      MathScope exact(Math::kExact);
      EXPECT_EQ(current_math(), Math::kExact);
      EXPECT_EQ(call(), before);
      EXPECT_EQ(kernels(), 1);
    }
    EXPECT_EQ(current_math(), Math::kFast);
    recorded = relu(matmul(x, w));
    std::thread([] { EXPECT_EQ(current_math(), Math::kStandard); }).join();
  }
  EXPECT_EQ(current_math(), Math::kStandard);
  EXPECT_EQ(recorded.to_vector<float>(), before);
  EXPECT_EQ(kernels(), 1);
}

TEST_F(MathTest, ReplaysAndProgramsGoByTheScopeOfTheCall) {
  Floats expected = call();
  auto jitted = jit([this](const Tensor &given) { return relu(matmul(given, w)); });
  Program program = trace([this](const Tensor &given) { return relu(matmul(given, w)); }, {x});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(jitted(x).to_vector<float>(), expected);
    EXPECT_EQ(kernels(), 1);
    EXPECT_EQ(program.run({x})[0].to_vector<float>(), expected);
    EXPECT_EQ(kernels(), 1);
    MathScope fast(Math::kFast);
    EXPECT_EQ(jitted(x).to_vector<float>(), expected);
    EXPECT_EQ(kernels(), 0);
    EXPECT_EQ(program.run({x})[0].to_vector<float>(), expected);
    EXPECT_EQ(kernels(), 0);
  }
}

TEST_F(MathTest, TheProcessHasAMode) {
  Config before = config(), changed = before;
  changed.math = Math::kFast;
  set_config(changed);
  Floats fast = call();
  EXPECT_EQ(kernels(), 0);
  set_config(before);
  EXPECT_EQ(call(), fast);
  EXPECT_EQ(kernels(), 1);
  EXPECT_EQ(name(Math::kExact), "exact");
  EXPECT_EQ(name(Math::kFast), "fast");
}

} // namespace
} // namespace weft
