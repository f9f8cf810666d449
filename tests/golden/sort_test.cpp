// Orders against PyTorch's (make_golden_sort.py): NaN and infinities, zeros of both signs, ties,
// every dtype.
#include "tests/golden/golden_file.h"

namespace weft::golden {
namespace {

const GoldenFile &file() {
  static const GoldenFile file("sort.safetensors");
  return file;
}

class SortTest : public testing::TestWithParam<DType> {};

TEST_P(SortTest, IsPyTorchs) {
  std::string dtype = name(GetParam());
  auto golden = [&](const std::string &what) {
    return file()[dtype + "." + what];
  };
  Tensor x = golden("x");
  ASSERT_EQ(x.dtype(), GetParam());
  for (int64_t dim : {0, 1})
    for (bool descending : {false, true}) {
      std::vector<int64_t> expected =
          golden((descending ? "down" : "up") + std::to_string(dim)).to_vector<int64_t>();
      EXPECT_EQ(argsort(x, dim, descending).to_vector<int64_t>(), expected);
      auto [values, indices] = sort(x, dim, descending);
      EXPECT_EQ(indices.to_vector<int64_t>(), expected);
      EXPECT_EQ(relative_distance(values, gather(x, dim, indices)), 0);
    }
  if (GetParam() == boolean)
    return;
  EXPECT_EQ(relative_distance(kthvalue(x, 3, 1).first, golden("kth")), 0);
  EXPECT_EQ(relative_distance(median(x, 1).first, golden("median")), 0);
  EXPECT_EQ(relative_distance(topk(x, 4, 1).first, golden("largest")), 0);
  EXPECT_EQ(relative_distance(topk(x, 4, 0, false).first, golden("smallest")), 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SortTest,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kInt32,
                                         DType::kInt64, DType::kBool, DType::kBFloat16,
                                         DType::kFloat16, DType::kInt8, DType::kInt16,
                                         DType::kUInt8),
                         [](const auto &info) { return std::string(name(info.param)); });

TEST(SortGradients, GoToWhereTheValuesComeFrom) {
  Tensor x = file()["gradient.x"].clone().set_requires_grad(), weight = file()["gradient.weight"];
  auto by_x = [&](const Tensor &values, const Tensor &factor) {
    return grad({(values * factor).sum()}, {x})[0];
  };
  EXPECT_EQ(relative_distance(by_x(sort(x, 1, true).first, weight), file()["gradient.sort"]), 0);
  EXPECT_EQ(
      relative_distance(by_x(topk(x, 3).first, weight.narrow(1, 0, 3)), file()["gradient.topk"]),
      0);
  EXPECT_EQ(
      relative_distance(by_x(median(x, 1).first, weight.select(1, 0)), file()["gradient.median"]),
      0);
}

} // namespace
} // namespace weft::golden
