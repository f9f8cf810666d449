// The comparison finds what differs.
#include "tests/programs/three_ways.h"

#include <string>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace weft::tests {
namespace {

// The failures of what runs.
std::string failures_of(const std::function<void()> &run) {
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    run();
  }
  std::string text;
  for (int i = 0; i < results.size(); ++i)
    text += results.GetTestPartResult(i).message() + std::string("\n");
  return text;
}

TEST(ThreeWays, AgreeOnResultsArgumentsAndWhatIsWritten) {
  Tensor seen = zeros({4}), w = ones({4}).requires_grad_();
  auto step = [&](Tensor x, const Tensor &y) {
    (x * w * w).sum().backward();
    seen += x * y;
    x *= 1.5;
    return std::pair(x + rand({4}), y.narrow(0, 0, 2));
  };
  ThreeWays ways{.written = {seen, w}, .calls = 3, .fed_back = 1};
  EXPECT_EQ(failures_of([&] { ways.compare(step, ones({4}), arange(4, float32)); }), "");
  EXPECT_EQ(seen.sum().item<float>(), 0) << "it is put back";
  EXPECT_FALSE(w.grad().defined());
}

TEST(ThreeWays, ANumberThatARecordingFreezes) {
  int calls = 0;
  std::string failures = failures_of([&] {
    ThreeWays().compare([&](const Tensor &x) { return x * double(++calls); }, ones({3}));
  });
  EXPECT_NE(failures.find("call 1, result 0, jitted, element 0: 3 instead of 1"), std::string::npos)
      << failures;
  EXPECT_NE(failures.find("traced"), std::string::npos) << failures;
}

TEST(ThreeWays, AWriteThatIsNotListed) {
  Tensor seen = zeros({2});
  std::string failures = failures_of([&] {
    ThreeWays().compare([&] {
      seen += 1;
      return seen * 2;
    });
  });
  EXPECT_NE(failures.find("jitted, element 0: 6 instead of 2"), std::string::npos) << failures;
}

TEST(ThreeWays, APlainCallInPlaceOfAReplay) {
  Tensor w = ones({2}).requires_grad_();
  std::string failures = failures_of([&] { ThreeWays().compare([&] { return w * 2; }); });
  EXPECT_NE(failures.find("nothing was replayed"), std::string::npos) << failures;
}

} // namespace
} // namespace weft::tests
