// Values and derivatives of weft/composites.h against PyTorch's (make_golden_composites.py).
#include "tests/golden/golden_case.h"

namespace weft::golden {
namespace {

int64_t offset_of(const std::string &name) {
  return name.ends_with("above") ? 2 : name.ends_with("below") ? -1 : 0;
}

// As EQUATIONS in make_golden_composites.py.
const std::vector<std::string> kEquations = {
    "ij,jk->ik",   "bij,bjk->bik", "ij->ji",   "ii->i",           "ii",
    "ij,ij->",     "ij,ij->i",     "i,j->ij",  "bhqd,bhkd->bhqk", "...ij,...jk->...ik",
    "bi,ij,bj->b", "ijk,kl->jl",   "ij,k->ki", "i...,i->..."};

const CaseFunctions kFunctions = {
    {"reciprocal", [](auto &, auto &in) { return reciprocal(in[0]); }},
    {"tan", [](auto &, auto &in) { return tan(in[0]); }},
    {"sinh", [](auto &, auto &in) { return sinh(in[0]); }},
    {"cosh", [](auto &, auto &in) { return cosh(in[0]); }},
    {"trunc", [](auto &, auto &in) { return trunc(in[0]); }},
    {"log2", [](auto &, auto &in) { return log2(in[0]); }},
    {"log10", [](auto &, auto &in) { return log10(in[0]); }},
    {"lerp", [](auto &, auto &in) { return lerp(in[0], in[1], in[2]); }},
    {"logaddexp", [](auto &, auto &in) { return logaddexp(in[0], in[1]); }},
    {"logsumexp_all", [](auto &, auto &in) { return logsumexp(in[0]); }},
    {"logsumexp_large", [](auto &, auto &in) { return logsumexp(in[0], 1, true); }},
    {"std_all", [](auto &, auto &in) { return weft::std(in[0]); }},
    {"std_dims", [](auto &, auto &in) { return weft::std(in[0], {0, 2}, 0); }},
    {"cumprod", [](auto &, auto &in) { return cumprod(in[0], -1); }},
    {"normalize", [](auto &, auto &in) { return normalize(in[0]); }},
    {"cosine", [](auto &, auto &in) { return cosine_similarity(in[0], in[1]); }},
    {"cdist", [](auto &, auto &in) { return cdist(in[0], in[1]); }},
    {"sort_up", [](auto &, auto &in) { return sort(in[0]).first; }},
    {"sort_down", [](auto &, auto &in) { return sort(in[0], 0, true).first; }},
    {"topk_large", [](auto &, auto &in) { return topk(in[0], 3).first; }},
    {"topk_small", [](auto &, auto &in) { return topk(in[0], 2, 1, false).first; }},
    {"topk_blocks", [](auto &, auto &in) { return topk(in[0], 5).first; }},
    {"roll_flat", [](auto &, auto &in) { return roll(in[0], Shape{4}); }},
    {"roll_dims", [](auto &, auto &in) { return roll(in[0], {-1, 7}, {0, 1}); }},
    {"unbind", [](auto &, auto &in) { return unbind(in[0], 1)[2] * unbind(in[0], 1)[0]; }},
    {"movedim", [](auto &, auto &in) { return movedim(in[0], 0, 2); }},
    {"meshgrid",
     [](auto &, auto &in) {
       auto grids = meshgrid({in[0], in[1]});
       return grids[0] * grids[1].square();
     }},
    {"diagonal", [](auto &name, auto &in) { return diagonal(in[0], offset_of(name), 1, 2); }},
    {"diag_", [](auto &name, auto &in) { return diag(in[0], offset_of(name)); }},
    {"trace", [](auto &, auto &in) { return trace(in[0]); }},
    {"scatter",
     [](auto &name, auto &in) { return scatter(in[0], name.back() - '0', in[2], in[1]); }},
    {"index_add", [](auto &, auto &in) { return index_add(in[0], 1, in[2], in[1]); }},
    {"dot", [](auto &, auto &in) { return dot(in[0], in[1]); }},
    {"outer", [](auto &, auto &in) { return outer(in[0], in[1]); }},
    {"einsum",
     [](auto &name, auto &in) {
       return einsum(kEquations[std::stoul(name.substr(name.size() - 2))], in);
     }},
};

const GoldenFile &file() {
  static const GoldenFile file("composites.safetensors");
  return file;
}

class CompositesTest : public testing::TestWithParam<std::string> {};

TEST_P(CompositesTest, ValuesAndDerivativesArePyTorchs) {
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(Cases, CompositesTest, testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
