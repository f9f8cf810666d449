// What programs call under PyTorch's names and is made of other functions, against PyTorch's.
#include "tests/golden/golden_case.h"

namespace weft::golden {
namespace {

// The parts side by side again, each times its place.
Tensor joined(std::vector<Tensor> parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = parts[i] * static_cast<int64_t>(i + 1);
  return cat(parts, 1);
}

// The n-th of the numbers at the end of a case's name, which single digits are.
int64_t number(const std::string &name, size_t n) {
  return name[name.size() - 5 + 2 * n] - '0';
}

Tensor indices(const std::string &name, decltype(tril_indices) &function) {
  int64_t diagonal = number(name, 2);
  return function(number(name, 0), number(name, 1), diagonal > 5 ? diagonal - 10 : diagonal,
                  Location::current());
}

const CaseFunctions kFunctions = {
    {"amax_all", [](auto &, auto &in) { return amax(in[0]); }},
    {"amax_last", [](auto &, auto &in) { return amax(in[0], 2); }},
    {"amax_two", [](auto &, auto &in) { return in[0].amax({0, -1}, true); }},
    {"amin_all", [](auto &, auto &in) { return amin(in[0]); }},
    {"amin_last", [](auto &, auto &in) { return amin(in[0], 2); }},
    {"amin_two", [](auto &, auto &in) { return in[0].amin({0, -1}, true); }},
    {"clamp_min_number", [](auto &, auto &in) { return in[0].clamp_min(0.5); }},
    {"clamp_min_tensor", [](auto &, auto &in) { return clamp_min(in[0], in[1]); }},
    {"clamp_max_number", [](auto &, auto &in) { return clamp_max(in[0], 0.5); }},
    {"clamp_max_tensor", [](auto &, auto &in) { return in[0].clamp_max(in[1]); }},
    {"mm", [](auto &, auto &in) { return mm(in[0], in[1]); }},
    {"bmm", [](auto &, auto &in) { return in[0].bmm(in[1]); }},
    {"mv", [](auto &, auto &in) { return mv(in[0], in[1]); }},
    {"baddbmm_plain", [](auto &, auto &in) { return baddbmm(in[0], in[1], in[2]); }},
    {"baddbmm_scaled", [](auto &, auto &in) { return in[0].baddbmm(in[1], in[2], 0.5, -2); }},
    {"baddbmm_without", [](auto &, auto &in) { return baddbmm(in[0], in[1], in[2], 0); }},
    {"add_alpha", [](auto &, auto &in) { return add(in[0], in[1], -0.3); }},
    {"sub_alpha", [](auto &, auto &in) { return in[0].sub(in[1], 3); }},
    {"add_half", [](auto &, auto &in) { return in[0].add(in[1], 0.375); }},
    {"masked_select", [](auto &, auto &in) { return masked_select(in[0], in[1]); }},
    {"tensor_split",
     [](auto &name, auto &in) { return joined(tensor_split(in[0], number(name, 2), 1)); }},
    {"tensor_split_at",
     [](auto &, auto &in) { return joined(in[0].tensor_split({1, 3, 3, -2, 9}, 1)); }},
    {"tensor_split_back", [](auto &, auto &in) { return joined(in[0].tensor_split({5, 2}, -1)); }},
    {"unfold",
     [](auto &name, auto &in) {
       return in[0].unfold(number(name, 0), number(name, 1), number(name, 2));
     }},
    {"unfold_twice", [](auto &, auto &in) { return in[0].unfold(1, 3, 1).unfold(2, 2, 2); }},
    {"unfold_number", [](auto &, auto &in) { return in[0].unfold(-1, 1, 1); }},
    {"tril_indices", [](auto &name, auto &in) { return in[0] * indices(name, tril_indices); }},
    {"triu_indices", [](auto &name, auto &in) { return in[0] * indices(name, triu_indices); }},
};

const GoldenFile &file() {
  static const GoldenFile file("common.safetensors");
  return file;
}

class CommonTest : public testing::TestWithParam<std::string> {};

TEST_P(CommonTest, ValuesAndDerivativesArePyTorchs) {
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(Cases, CommonTest, testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
