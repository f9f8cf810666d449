// Scatters that combine, orders, inverse functions, counting, arrangement and products of
// weft/composites.h against PyTorch's.
#include <cmath>

#include "tests/golden/golden_case.h"

namespace weft::golden {
namespace {

// "sum", "prod", ... of a case that is named after it.
std::string combiner_of(const std::string &name) {
  size_t begin = name.find('_') + 1;
  return name.substr(begin, name.find('_', begin) - begin);
}

// The places as numbers, which depend on x by nothing.
Tensor places(const std::pair<Tensor, Tensor> &found, const Tensor &x) {
  return found.second.to(float32) + 0 * x.sum();
}

Tensor edge_softmax(const Tensor &scores, const Tensor &node) {
  Tensor most = zeros({4}).scatter_reduce(0, node, scores, "amax", false);
  Tensor weights = exp(scores - index_select(most, 0, node));
  return weights / index_select(zeros({4}).scatter_add(0, node, weights), 0, node);
}

const std::map<std::string, double> kNorms = {
    {"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}, {"half", 0.5}, {"inf", INFINITY}, {"least", -INFINITY}};

const CaseFunctions kFunctions = {
    {"scatter",
     [](auto &name, auto &in) {
       return scatter_reduce(in[0], name.ends_with("dim1") ? 1 : 0, in[2], in[1], combiner_of(name), !name.ends_with("without"));
     }},
    {"index", [](auto &name, auto &in) { return index_reduce(in[0], 1, in[2], in[1], combiner_of(name)); }},
    {"edge_softmax", [](auto &, auto &in) { return edge_softmax(in[0], in[1]); }},
    {"max_values_1", [](auto &, auto &in) { return max_with_indices(in[0], 1).first; }},
    {"min_values_0", [](auto &, auto &in) { return min_with_indices(in[0], 0, true).first; }},
    {"max_places_1", [](auto &, auto &in) { return places(max_with_indices(in[0], 1), in[0]); }},
    {"min_places_1", [](auto &, auto &in) { return places(min_with_indices(in[0], 1), in[0]); }},
    {"cummax_values_1", [](auto &, auto &in) { return cummax(in[0], 1).first; }},
    {"cummin_values_1", [](auto &, auto &in) { return cummin(in[0], 1).first; }},
    {"cummax_places_1", [](auto &, auto &in) { return places(cummax(in[0], 1), in[0]); }},
    {"cummin_places_1", [](auto &, auto &in) { return places(cummin(in[0], 1), in[0]); }},
    {"cummax_long_0", [](auto &, auto &in) { return cummax(in[0], 0).first; }},
    {"logcumsumexp", [](auto &, auto &in) { return logcumsumexp(in[0], 1); }},
    {"mode", [](auto &, auto &in) { return mode(in[0], 1).first; }},
    {"quantile_dim", [](auto &, auto &in) { return quantile(in[0], 0.37, 1); }},
    {"quantile_keep", [](auto &, auto &in) { return quantile(in[0], 0.8, 0, true); }},
    {"quantile_all", [](auto &, auto &in) { return quantile(in[0], 0.5); }},
    {"quantile_list", [](auto &, auto &in) { return quantile(in[0], {0.0, 0.25, 0.9, 1.0}, 1); }},
    {"atan2", [](auto &, auto &in) { return atan2(in[0], in[1]); }},
    {"atan", [](auto &, auto &in) { return atan(in[0]); }},
    {"asinh", [](auto &, auto &in) { return asinh(in[0]); }},
    {"acosh", [](auto &, auto &in) { return acosh(in[0]); }},
    {"asin", [](auto &, auto &in) { return asin(in[0]); }},
    {"acos", [](auto &, auto &in) { return acos(in[0]); }},
    {"atanh", [](auto &, auto &in) { return atanh(in[0]); }},
    {"exp2", [](auto &, auto &in) { return exp2(in[0]); }},
    {"logit", [](auto &, auto &in) { return logit(in[0]); }},
    {"logit_eps", [](auto &, auto &in) { return logit(in[0], 0.1); }},
    {"rad2deg", [](auto &, auto &in) { return rad2deg(in[0]); }},
    {"deg2rad", [](auto &, auto &in) { return deg2rad(in[0]); }},
    {"frac", [](auto &, auto &in) { return frac(in[0]); }},
    {"hypot", [](auto &, auto &in) { return hypot(in[0], in[1]); }},
    {"fmod", [](auto &, auto &in) { return fmod(in[0], in[1]); }},
    {"copysign", [](auto &, auto &in) { return copysign(in[0], in[1]); }},
    {"xlogy", [](auto &, auto &in) { return xlogy(in[0], in[1]); }},
    {"addcmul", [](auto &, auto &in) { return addcmul(in[0], in[1], in[2], 0.3); }},
    {"addcdiv", [](auto &, auto &in) { return addcdiv(in[0], in[1], in[2], -2); }},
    {"nan_to_num", [](auto &, auto &in) { return nan_to_num(in[0], 2, 7); }},
    {"count_nonzero", [](auto &, auto &in) { return count_nonzero(in[0], 1) + 0 * in[0].sum(1); }},
    {"nansum", [](auto &, auto &in) { return nansum(in[0], 1); }},
    {"nanmean", [](auto &, auto &in) { return nanmean(in[0], 0, true); }},
    {"norm", [](auto &name, auto &in) { return vector_norm(in[0], kNorms.at(name.substr(5)), 2) + 0 * in[0].sum(2); }},
    {"norm_zero", [](auto &, auto &in) { return vector_norm(in[0], 2, 1); }},
    {"diff", [](auto &, auto &in) { return diff(in[0]); }},
    {"diff_twice", [](auto &, auto &in) { return diff(in[0], 2, 1); }},
    {"pairwise", [](auto &name, auto &in) { return pairwise_distance(in[0], in[1], name.back() - '0'); }},
    {"bincount_weights", [](auto &, auto &in) { return bincount(in[1], in[0].detach()) + 0 * in[0].sum(); }},
    {"histc", [](auto &, auto &in) { return histc(in[0], 5, -1, 2) + 0 * in[0].sum(); }},
    {"histc_range", [](auto &, auto &in) { return histc(in[0], 4) + 0 * in[0].sum(); }},
    {"bucketize",
     [](auto &name, auto &in) { return bucketize(in[0], in[1], name.ends_with("right")).to(float32) + 0 * in[0].sum(); }},
    {"searchsorted",
     [](auto &name, auto &in) { return searchsorted(in[0], in[1], name.ends_with("right")).to(float32) + 0 * in[1].sum(); }},
    {"diag_embed_last", [](auto &, auto &in) { return diag_embed(in[0]); }},
    {"diag_embed_dims", [](auto &, auto &in) { return diag_embed(in[0], -1, 0, 2); }},
    {"rot90", [](auto &name, auto &in) { return rot90(in[0], name.ends_with("back") ? -1 : name[6] - '0', {1, 2}); }},
    {"unflatten", [](auto &, auto &in) { return unflatten(in[0], 2, {2, -1}); }},
    {"take_along_dim", [](auto &, auto &in) { return take_along_dim(in[0], in[1], 1); }},
    {"index_fill", [](auto &, auto &in) { return index_fill(in[0], 1, in[1], 0.5); }},
    {"addmm", [](auto &, auto &in) { return addmm(in[0], in[1], in[2], 0.5, -2); }},
    {"cross_last", [](auto &, auto &in) { return cross(in[0], in[1]); }},
    {"cross_first", [](auto &, auto &in) { return cross(in[0], in[1], 0); }},
    {"kron", [](auto &, auto &in) { return kron(in[0], in[1]); }},
    {"tensordot_two", [](auto &, auto &in) { return tensordot(in[0], in[1], 2); }},
    {"tensordot_dims", [](auto &, auto &in) { return tensordot(in[0], in[1], {0, 2}, {1, 0}); }},
    {"unfold", [](auto &, auto &in) { return unfold(in[0], {2, 3}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}); }},
    {"fold", [](auto &, auto &in) { return fold(in[0], {5, 7}, {2, 3}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}); }},
    {"pixel_shuffle", [](auto &, auto &in) { return pixel_shuffle(in[0], 2); }},
    {"pixel_unshuffle", [](auto &, auto &in) { return pixel_unshuffle(in[0], 2); }},
    {"grid_sample",
     [](auto &name, auto &in) {
       GridSampleOptions options;
       if (name.find("nearest") != std::string::npos) options.mode = Resize::kNearest;
       if (name.find("border") != std::string::npos) options.padding = GridPadding::kBorder;
       options.align_corners = name.ends_with("corners");
       return grid_sample(in[0], in[1], options);
     }},
    {"affine_grid", [](auto &name, auto &in) { return affine_grid(in[0], {2, 3, 4, 5}, name.ends_with("corners")); }},
    {"hardtanh", [](auto &, auto &in) { return nn::Hardtanh(-1.5, 0.5)(in[0]); }},
    {"relu6", [](auto &, auto &in) { return nn::ReLU6()(in[0]); }},
    {"softsign", [](auto &, auto &in) { return nn::Softsign()(in[0]); }},
    {"tanhshrink", [](auto &, auto &in) { return nn::Tanhshrink()(in[0]); }},
    {"hardshrink", [](auto &, auto &in) { return nn::Hardshrink(0.7)(in[0]); }},
    {"softshrink", [](auto &, auto &in) { return nn::Softshrink(0.7)(in[0]); }},
    {"celu", [](auto &, auto &in) { return nn::CELU(0.7)(in[0]); }},
    {"prelu", [](auto &, auto &in) { return prelu(in[0], in[1]); }},
    {"glu", [](auto &, auto &in) { return nn::GLU(1)(in[0]); }},
};

const GoldenFile &file() {
  static const GoldenFile file("further.safetensors");
  return file;
}

class FurtherTest : public testing::TestWithParam<std::string> {};

TEST_P(FurtherTest, ValuesAndDerivativesArePyTorchs) {
  check_case(file(), GetParam(), kFunctions);
}

INSTANTIATE_TEST_SUITE_P(Cases, FurtherTest, testing::ValuesIn(file().cases()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
