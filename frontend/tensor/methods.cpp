// Members of Tensor that are functions with this tensor first.
#include "weft/composites.h"

namespace weft {

#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor Tensor::function(Location location) const {                                               \
    return weft::function(*this, location);                                                        \
  }
#define WEFT_BINARY(function, record, operands, doc)                                               \
  Tensor Tensor::function(TensorArg other, Location location) const {                              \
    return weft::function(TensorArg(*this, location), other, location);                            \
  }
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
Tensor Tensor::add(TensorArg other, Scalar alpha, Location location) const {
  return weft::add(TensorArg(*this, location), other, alpha, location);
}
Tensor Tensor::sub(TensorArg other, Scalar alpha, Location location) const {
  return weft::sub(TensorArg(*this, location), other, alpha, location);
}
Tensor Tensor::div(TensorArg other, Location location) const {
  return weft::div(TensorArg(*this, location), other, location);
}
Tensor Tensor::remainder(TensorArg other, Location location) const {
  return weft::remainder(*this, other, location);
}
Tensor Tensor::prod(Dims dims, bool keepdim, Location location) const {
  return weft::prod(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::any(Dims dims, bool keepdim, Location location) const {
  return weft::any(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::all(Dims dims, bool keepdim, Location location) const {
  return weft::all(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim, Location location) const {
  return weft::argmax(*this, dim, keepdim, location);
}
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim, Location location) const {
  return weft::argmin(*this, dim, keepdim, location);
}
Tensor Tensor::cumsum(int64_t dim, Location location) const {
  return weft::cumsum(*this, dim, location);
}
Tensor Tensor::broadcast_to(const Shape &shape, Location location) const {
  return weft::broadcast_to(*this, shape, location);
}
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max,
                     Location location) const {
  return weft::clamp(*this, min, max, location);
}
Tensor Tensor::clamp(const Tensor &min, const Tensor &max, Location location) const {
  return weft::clamp(*this, min, max, location);
}
Tensor Tensor::clamp_min(TensorArg min, Location location) const {
  return weft::clamp_min(*this, min, location);
}
Tensor Tensor::clamp_max(TensorArg max, Location location) const {
  return weft::clamp_max(*this, max, location);
}
Tensor Tensor::masked_fill(const Tensor &mask, TensorArg value, Location location) const {
  return weft::masked_fill(*this, mask, value, location);
}
Tensor Tensor::flip(Dims dims, Location location) const {
  return weft::flip(*this, std::move(dims), location);
}
Tensor Tensor::square(Location location) const {
  return weft::square(*this, location);
}
Tensor Tensor::gelu(std::string_view approximate, Location location) const {
  return weft::gelu(*this, approximate, location);
}
Tensor Tensor::to(DType dtype, Location location) const {
  return weft::cast(*this, dtype, location);
}
Tensor Tensor::sum(Dims dims, bool keepdim, Location location) const {
  return weft::sum(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::mean(Dims dims, bool keepdim, Location location) const {
  return weft::mean(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::max(Dims dims, bool keepdim, Location location) const {
  return weft::max(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::min(Dims dims, bool keepdim, Location location) const {
  return weft::min(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::amax(Dims dims, bool keepdim, Location location) const {
  return weft::amax(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::amin(Dims dims, bool keepdim, Location location) const {
  return weft::amin(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::var(Dims dims, int64_t correction, bool keepdim, Location location) const {
  return weft::var(*this, std::move(dims), correction, keepdim, location);
}
Tensor Tensor::matmul(const Tensor &other, Location location) const {
  return weft::matmul(*this, other, location);
}
Tensor Tensor::mm(const Tensor &other, Location location) const {
  return weft::mm(*this, other, location);
}
Tensor Tensor::bmm(const Tensor &other, Location location) const {
  return weft::bmm(*this, other, location);
}
Tensor Tensor::mv(const Tensor &other, Location location) const {
  return weft::mv(*this, other, location);
}
Tensor Tensor::softmax(int64_t dim, Location location) const {
  return weft::softmax(*this, dim, location);
}
Tensor Tensor::log_softmax(int64_t dim, Location location) const {
  return weft::log_softmax(*this, dim, location);
}
std::vector<Tensor> Tensor::split(int64_t size, int64_t dim, Location location) const {
  return weft::split(*this, size, dim, location);
}
std::vector<Tensor> Tensor::split(const Shape &sizes, int64_t dim, Location location) const {
  return weft::split(*this, sizes, dim, location);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim, Location location) const {
  return weft::chunk(*this, chunks, dim, location);
}
std::vector<Tensor> Tensor::tensor_split(int64_t sections, int64_t dim, Location location) const {
  return weft::tensor_split(*this, sections, dim, location);
}
std::vector<Tensor> Tensor::tensor_split(const Shape &indices, int64_t dim,
                                         Location location) const {
  return weft::tensor_split(*this, indices, dim, location);
}
Tensor Tensor::is_nan(Location location) const {
  return weft::is_nan(*this, location);
}
Tensor Tensor::is_inf(Location location) const {
  return weft::is_inf(*this, location);
}
Tensor Tensor::is_finite(Location location) const {
  return weft::is_finite(*this, location);
}
Tensor Tensor::reciprocal(Location location) const {
  return weft::reciprocal(*this, location);
}
Tensor Tensor::log2(Location location) const {
  return weft::log2(*this, location);
}
Tensor Tensor::log10(Location location) const {
  return weft::log10(*this, location);
}
Tensor Tensor::tan(Location location) const {
  return weft::tan(*this, location);
}
Tensor Tensor::sinh(Location location) const {
  return weft::sinh(*this, location);
}
Tensor Tensor::cosh(Location location) const {
  return weft::cosh(*this, location);
}
Tensor Tensor::trunc(Location location) const {
  return weft::trunc(*this, location);
}
Tensor Tensor::logical_not(Location location) const {
  return weft::logical_not(*this, location);
}
Tensor Tensor::bitwise_not(Location location) const {
  return weft::bitwise_not(*this, location);
}
Tensor Tensor::logical_and(TensorArg other, Location location) const {
  return weft::logical_and(TensorArg(*this, location), other, location);
}
Tensor Tensor::logical_or(TensorArg other, Location location) const {
  return weft::logical_or(TensorArg(*this, location), other, location);
}
Tensor Tensor::logical_xor(TensorArg other, Location location) const {
  return weft::logical_xor(TensorArg(*this, location), other, location);
}
Tensor Tensor::bitwise_and(TensorArg other, Location location) const {
  return weft::bitwise_and(TensorArg(*this, location), other, location);
}
Tensor Tensor::bitwise_or(TensorArg other, Location location) const {
  return weft::bitwise_or(TensorArg(*this, location), other, location);
}
Tensor Tensor::bitwise_xor(TensorArg other, Location location) const {
  return weft::bitwise_xor(TensorArg(*this, location), other, location);
}
Tensor Tensor::bitwise_left_shift(TensorArg other, Location location) const {
  return weft::bitwise_left_shift(TensorArg(*this, location), other, location);
}
Tensor Tensor::bitwise_right_shift(TensorArg other, Location location) const {
  return weft::bitwise_right_shift(TensorArg(*this, location), other, location);
}
Tensor Tensor::eq(TensorArg other, Location location) const {
  return weft::eq(TensorArg(*this, location), other, location);
}
Tensor Tensor::ne(TensorArg other, Location location) const {
  return weft::ne(TensorArg(*this, location), other, location);
}
Tensor Tensor::lt(TensorArg other, Location location) const {
  return weft::lt(TensorArg(*this, location), other, location);
}
Tensor Tensor::le(TensorArg other, Location location) const {
  return weft::le(TensorArg(*this, location), other, location);
}
Tensor Tensor::gt(TensorArg other, Location location) const {
  return weft::gt(TensorArg(*this, location), other, location);
}
Tensor Tensor::ge(TensorArg other, Location location) const {
  return weft::ge(TensorArg(*this, location), other, location);
}
Tensor Tensor::floor_divide(TensorArg other, Location location) const {
  return weft::floor_divide(TensorArg(*this, location), other, location);
}
Tensor Tensor::lerp(const Tensor &other, TensorArg weight, Location location) const {
  return weft::lerp(*this, other, weight, location);
}
Tensor Tensor::logaddexp(const Tensor &other, Location location) const {
  return weft::logaddexp(*this, other, location);
}
Tensor Tensor::is_close(const Tensor &other, double rtol, double atol, bool equal_nan,
                        Location location) const {
  return weft::is_close(*this, other, rtol, atol, equal_nan, location);
}
bool Tensor::all_close(const Tensor &other, double rtol, double atol, bool equal_nan,
                       Location location) const {
  return weft::all_close(*this, other, rtol, atol, equal_nan, location);
}
bool Tensor::equal(const Tensor &other, Location location) const {
  return weft::equal(*this, other, location);
}
Tensor Tensor::norm(NormOrder p, Dims dims, bool keepdim, Location location) const {
  return weft::norm(*this, p, std::move(dims), keepdim, location);
}
Tensor Tensor::std(Dims dims, int64_t correction, bool keepdim, Location location) const {
  return weft::std(*this, std::move(dims), correction, keepdim, location);
}
Tensor Tensor::logsumexp(Dims dims, bool keepdim, Location location) const {
  return weft::logsumexp(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::cumprod(int64_t dim, Location location) const {
  return weft::cumprod(*this, dim, location);
}
std::pair<Tensor, Tensor> Tensor::sort(int64_t dim, bool descending, Location location) const {
  return weft::sort(*this, dim, descending, location);
}
Tensor Tensor::argsort(int64_t dim, bool descending, Location location) const {
  return weft::argsort(*this, dim, descending, location);
}
Tensor Tensor::msort(Location location) const {
  return weft::msort(*this, location);
}
std::pair<Tensor, Tensor> Tensor::kthvalue(int64_t k, int64_t dim, bool keepdim,
                                           Location location) const {
  return weft::kthvalue(*this, k, dim, keepdim, location);
}
std::pair<Tensor, Tensor> Tensor::median(int64_t dim, bool keepdim, Location location) const {
  return weft::median(*this, dim, keepdim, location);
}
Tensor Tensor::median(Location location) const {
  return weft::median(*this, location);
}
std::pair<Tensor, Tensor> Tensor::topk(int64_t k, int64_t dim, bool largest,
                                       Location location) const {
  return weft::topk(*this, k, dim, largest, location);
}
Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim,
                                 Location location) const {
  return weft::repeat_interleave(*this, repeats, dim, location);
}
Tensor Tensor::repeat(const Shape &repeats, Location location) const {
  return weft::repeat(*this, repeats, location);
}
Tensor Tensor::roll(int64_t shift, int64_t dim, Location location) const {
  return weft::roll(*this, shift, dim, location);
}
Tensor Tensor::roll(const Shape &shifts, Dims dims, Location location) const {
  return weft::roll(*this, shifts, std::move(dims), location);
}
std::vector<Tensor> Tensor::unbind(int64_t dim, Location location) const {
  return weft::unbind(*this, dim, location);
}
Tensor Tensor::movedim(int64_t source, int64_t destination, Location location) const {
  return weft::movedim(*this, source, destination, location);
}
Tensor Tensor::diagonal(int64_t offset, int64_t dim0, int64_t dim1, Location location) const {
  return weft::diagonal(*this, offset, dim0, dim1, location);
}
Tensor Tensor::diag(int64_t offset, Location location) const {
  return weft::diag(*this, offset, location);
}
Tensor Tensor::trace(Location location) const {
  return weft::trace(*this, location);
}
Tensor Tensor::tril(int64_t diagonal, Location location) const {
  return weft::tril(*this, diagonal, location);
}
Tensor Tensor::triu(int64_t diagonal, Location location) const {
  return weft::triu(*this, diagonal, location);
}
Tensor Tensor::index_select(int64_t dim, const Tensor &indices, Location location) const {
  return weft::index_select(*this, dim, indices, location);
}
Tensor Tensor::gather(int64_t dim, const Tensor &indices, Location location) const {
  return weft::gather(*this, dim, indices, location);
}
Tensor Tensor::scatter(int64_t dim, const Tensor &indices, TensorArg source,
                       Location location) const {
  return weft::scatter(*this, dim, indices, source, location);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor &indices, const Tensor &source,
                           Location location) const {
  return weft::scatter_add(*this, dim, indices, source, location);
}
Tensor Tensor::index_add(int64_t dim, const Tensor &indices, const Tensor &source,
                         Location location) const {
  return weft::index_add(*this, dim, indices, source, location);
}
Tensor Tensor::index_copy(int64_t dim, const Tensor &indices, const Tensor &source,
                          Location location) const {
  return weft::index_copy(*this, dim, indices, source, location);
}
Tensor Tensor::nonzero(Location location) const {
  return weft::nonzero(*this, location);
}
Tensor Tensor::masked_select(const Tensor &mask, Location location) const {
  return weft::masked_select(*this, mask, location);
}
Tensor Tensor::dot(const Tensor &other, Location location) const {
  return weft::dot(*this, other, location);
}
Tensor Tensor::outer(const Tensor &other, Location location) const {
  return weft::outer(*this, other, location);
}

Tensor Tensor::atan2(TensorArg other, Location location) const {
  return weft::atan2(TensorArg(*this, location), other, location);
}
Tensor Tensor::asin(Location location) const {
  return weft::asin(*this, location);
}
Tensor Tensor::acos(Location location) const {
  return weft::acos(*this, location);
}
Tensor Tensor::atan(Location location) const {
  return weft::atan(*this, location);
}
Tensor Tensor::asinh(Location location) const {
  return weft::asinh(*this, location);
}
Tensor Tensor::acosh(Location location) const {
  return weft::acosh(*this, location);
}
Tensor Tensor::atanh(Location location) const {
  return weft::atanh(*this, location);
}
Tensor Tensor::logit(std::optional<double> eps, Location location) const {
  return weft::logit(*this, eps, location);
}
Tensor Tensor::rad2deg(Location location) const {
  return weft::rad2deg(*this, location);
}
Tensor Tensor::deg2rad(Location location) const {
  return weft::deg2rad(*this, location);
}
Tensor Tensor::frac(Location location) const {
  return weft::frac(*this, location);
}
Tensor Tensor::hypot(TensorArg other, Location location) const {
  return weft::hypot(TensorArg(*this, location), other, location);
}
Tensor Tensor::fmod(TensorArg other, Location location) const {
  return weft::fmod(TensorArg(*this, location), other, location);
}
Tensor Tensor::copysign(TensorArg other, Location location) const {
  return weft::copysign(TensorArg(*this, location), other, location);
}
Tensor Tensor::signbit(Location location) const {
  return weft::signbit(*this, location);
}
Tensor Tensor::heaviside(TensorArg at_zero, Location location) const {
  return weft::heaviside(TensorArg(*this, location), at_zero, location);
}
Tensor Tensor::sinc(Location location) const {
  return weft::sinc(*this, location);
}
Tensor Tensor::fmax(TensorArg other, Location location) const {
  return weft::fmax(TensorArg(*this, location), other, location);
}
Tensor Tensor::fmin(TensorArg other, Location location) const {
  return weft::fmin(TensorArg(*this, location), other, location);
}
std::pair<Tensor, Tensor> Tensor::aminmax(Dims dims, bool keepdim, Location location) const {
  return weft::aminmax(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::cov(int64_t correction, Location location) const {
  return weft::cov(*this, correction, location);
}
Tensor Tensor::corrcoef(Location location) const {
  return weft::corrcoef(*this, location);
}
Tensor Tensor::take(const Tensor &indices, Location location) const {
  return weft::take(*this, indices, location);
}
Tensor Tensor::addmv(const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
                     Location location) const {
  return weft::addmv(*this, a, b, beta, alpha, location);
}
Tensor Tensor::xlogy(TensorArg other, Location location) const {
  return weft::xlogy(TensorArg(*this, location), other, location);
}
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf,
                          Location location) const {
  return weft::nan_to_num(*this, nan, posinf, neginf, location);
}
Tensor Tensor::addcmul(const Tensor &a, const Tensor &b, Scalar value, Location location) const {
  return weft::addcmul(*this, a, b, value, location);
}
Tensor Tensor::addcdiv(const Tensor &a, const Tensor &b, Scalar value, Location location) const {
  return weft::addcdiv(*this, a, b, value, location);
}
Tensor Tensor::count_nonzero(Dims dims, Location location) const {
  return weft::count_nonzero(*this, std::move(dims), location);
}
Tensor Tensor::nansum(Dims dims, bool keepdim, Location location) const {
  return weft::nansum(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::nanmean(Dims dims, bool keepdim, Location location) const {
  return weft::nanmean(*this, std::move(dims), keepdim, location);
}
Tensor Tensor::vector_norm(NormOrder p, Dims dims, bool keepdim, Location location) const {
  return weft::vector_norm(*this, p, std::move(dims), keepdim, location);
}
Tensor Tensor::diff(int64_t n, int64_t dim, Location location) const {
  return weft::diff(*this, n, dim, location);
}
Tensor Tensor::logcumsumexp(int64_t dim, Location location) const {
  return weft::logcumsumexp(*this, dim, location);
}
std::pair<Tensor, Tensor> Tensor::max_with_indices(int64_t dim, bool keepdim,
                                                   Location location) const {
  return weft::max_with_indices(*this, dim, keepdim, location);
}
std::pair<Tensor, Tensor> Tensor::min_with_indices(int64_t dim, bool keepdim,
                                                   Location location) const {
  return weft::min_with_indices(*this, dim, keepdim, location);
}
std::pair<Tensor, Tensor> Tensor::cummax(int64_t dim, Location location) const {
  return weft::cummax(*this, dim, location);
}
std::pair<Tensor, Tensor> Tensor::cummin(int64_t dim, Location location) const {
  return weft::cummin(*this, dim, location);
}
std::pair<Tensor, Tensor> Tensor::mode(int64_t dim, bool keepdim, Location location) const {
  return weft::mode(*this, dim, keepdim, location);
}
Tensor Tensor::quantile(double q, std::optional<int64_t> dim, bool keepdim,
                        Location location) const {
  return weft::quantile(*this, q, dim, keepdim, location);
}
Tensor Tensor::quantile(const std::vector<double> &q, std::optional<int64_t> dim, bool keepdim,
                        Location location) const {
  return weft::quantile(*this, q, dim, keepdim, location);
}
Tensor Tensor::bincount(const Tensor &weights, int64_t minlength, Location location) const {
  return weft::bincount(*this, weights, minlength, location);
}
Tensor Tensor::histc(int64_t bins, double low, double high, Location location) const {
  return weft::histc(*this, bins, low, high, location);
}
Tensor Tensor::bucketize(const Tensor &boundaries, bool right, Location location) const {
  return weft::bucketize(*this, boundaries, right, location);
}
Tensor Tensor::isin(const Tensor &elements, Location location) const {
  return weft::isin(*this, elements, location);
}
Tensor Tensor::diag_embed(int64_t offset, int64_t dim1, int64_t dim2, Location location) const {
  return weft::diag_embed(*this, offset, dim1, dim2, location);
}
Tensor Tensor::rot90(int64_t k, Dims dims, Location location) const {
  return weft::rot90(*this, k, std::move(dims), location);
}
Tensor Tensor::unflatten(int64_t dim, const Shape &sizes, Location location) const {
  return weft::unflatten(*this, dim, sizes, location);
}
Tensor Tensor::take_along_dim(const Tensor &indices, int64_t dim, Location location) const {
  return weft::take_along_dim(*this, indices, dim, location);
}
Tensor Tensor::scatter_reduce(int64_t dim, const Tensor &indices, const Tensor &source,
                              std::string_view reduce, bool include_self, Location location) const {
  return weft::scatter_reduce(*this, dim, indices, source, reduce, include_self, location);
}
Tensor Tensor::index_reduce(int64_t dim, const Tensor &indices, const Tensor &source,
                            std::string_view reduce, bool include_self, Location location) const {
  return weft::index_reduce(*this, dim, indices, source, reduce, include_self, location);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor &indices, Scalar value,
                          Location location) const {
  return weft::index_fill(*this, dim, indices, value, location);
}
Tensor Tensor::addmm(const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
                     Location location) const {
  return weft::addmm(*this, a, b, beta, alpha, location);
}
Tensor Tensor::baddbmm(const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
                       Location location) const {
  return weft::baddbmm(*this, a, b, beta, alpha, location);
}
Tensor Tensor::cross(const Tensor &other, int64_t dim, Location location) const {
  return weft::cross(*this, other, dim, location);
}
Tensor Tensor::kron(const Tensor &other, Location location) const {
  return weft::kron(*this, other, location);
}
Tensor Tensor::tensordot(const Tensor &other, int64_t dims, Location location) const {
  return weft::tensordot(*this, other, dims, location);
}
Tensor Tensor::tensordot(const Tensor &other, const Shape &x_dims, const Shape &y_dims,
                         Location location) const {
  return weft::tensordot(*this, other, x_dims, y_dims, location);
}

} // namespace weft
