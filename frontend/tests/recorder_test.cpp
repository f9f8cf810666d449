// From calls to values: recording, evaluation, the cache.
#include "weft/weft.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Recorder, ComputesWhatWasRecorded) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor y = x * 2.0 + 1.0;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7}));
}

} // namespace
} // namespace weft
