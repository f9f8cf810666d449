// attention(): its checks, heads that are shared, and dropout on its weights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"
#include "weft/random.h"

namespace weft {

using namespace recorder;

namespace {

bool broadcasts_to(const Shape &from, const Shape &to) {
  return from.size() <= to.size() &&
         std::equal(from.rbegin(), from.rend(), to.rbegin(),
                    [](int64_t a, int64_t b) { return a == b || a == 1; });
}

} // namespace

// x with `heads` heads, each of its own as often as there are queries for it. Attention's kernel
// reads a head where it lies.
static Var repeated_heads(const Var &x, int64_t heads) {
  const auto at = static_cast<size_t>(x.ndim() - 3);
  if (x.dims()[at] == heads)
    return x;
  Shape apart = x.dims(), all = x.dims();
  apart.insert(apart.begin() + static_cast<int64_t>(at) + 1, 1);
  Shape wide = apart;
  wide[at + 1] = heads / x.dims()[at];
  all[at] = heads;
  return emit_reshape(broadcast(emit_reshape(x, apart), wide), all);
}

// Broadcasts all but the last two dims to one shape. False where there is none.
static bool share_leading_dims(Var &q, Var &k, Var &v) {
  Shape shared(static_cast<size_t>(std::max({q.ndim(), k.ndim(), v.ndim()})) - 2, 1);
  for (const Var *x : {&q, &k, &v})
    for (size_t i = shared.size(), j = x->dims().size() - 2; j-- > 0;) {
      int64_t dim = x->dims()[j], &wide = shared[--i];
      if (dim != wide && dim != 1 && wide != 1)
        return false;
      wide = wide == 1 ? dim : wide;
    }
  for (Var *x : {&q, &k, &v}) {
    Shape shape = shared;
    shape.insert(shape.end(), x->dims().end() - 2, x->dims().end());
    *x = broadcast(*x, shape);
  }
  return true;
}

// attention() with dropout between softmax and value, where scores and weights are in memory. A row
// that sees nothing is 0 here as well.
static Tensor dropped_attention(const Var &q, const Var &k, const Var &v, const Var &mask,
                                const AttentionOptions &options, double scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(wrap(q) * scale, wrap(k).transpose(-2, -1)), visible;
  if (mask && mask.dtype() == DType::kBool) {
    visible = wrap(mask);
  } else if (mask) {
    scores = scores + wrap(mask);
    visible = scores > -kInfinity;
  }
  if (options.causal) {
    const int64_t queries = scores.size(-2), keys = scores.size(-1);
    Tensor earlier = ones({queries, keys}, boolean).tril(keys - queries);
    visible = visible.defined() ? logical_and(visible, earlier) : earlier;
  }
  Tensor weights;
  if (visible.defined()) {
    // A finite number, so that a row that sees nothing is no NaN.
    const double least = q.dtype() == DType::kFloat16 ? -65504 : -3e38;
    weights = where(visible, softmax(where(visible, scores, least), -1), 0.0);
  } else {
    weights = softmax(scores, -1);
  }
  Generator &generator = options.generator ? *options.generator : default_generator();
  return matmul(dropout(weights, options.dropout, /*training=*/true, generator), wrap(v));
}

Tensor attention(const Tensor &query, const Tensor &key, const Tensor &value, const Tensor &mask,
                 AttentionOptions options, Location location) {
  Session session("attention", location);
  Var q = read(query, "query"), k = read(key, "key"), v = read(value, "value"), m;
  auto given = [&] {
    return "query " + to_string(query.shape()) + ", key " + to_string(key.shape()) +
           " and value " + to_string(value.shape());
  };
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2 || q.dims().back() != k.dims().back() ||
      k.dims()[k.ndim() - 2] != v.dims()[v.ndim() - 2])
    fail(ErrorKind::kShape, given() + " must be [.., Tq, D], [.., Tk, D] and [.., Tk, Dv]");
  if (options.grouped) {
    auto heads_of = [&](const Var &x) {
      return x.ndim() < 3 ? 0 : x.dims()[x.ndim() - 3];
    };
    int64_t heads = heads_of(q);
    auto divides = [&](int64_t fewer) {
      return fewer == heads || (fewer > 0 && heads % fewer == 0);
    };
    if (q.ndim() < 3 || k.ndim() < 3 || v.ndim() < 3 || !divides(heads_of(k)) ||
        !divides(heads_of(v)))
      fail(ErrorKind::kShape,
           given() + " must be [.., H, Tq, D], [.., Hk, Tk, D] and [.., Hk, Tk, Dv] where "
                   "AttentionOptions::grouped is set, with Hk a divisor of H");
    k = repeated_heads(k, heads);
    v = repeated_heads(v, heads);
  }
  if (!share_leading_dims(q, k, v))
    fail(ErrorKind::kShape,
         given() + " have leading dimensions that do not broadcast" +
             (options.grouped ? "" : "; heads of keys that serve several heads of queries want "
                                     "AttentionOptions::grouped"));
  if (!is_floating(q.dtype()) || k.dtype() != q.dtype() || v.dtype() != q.dtype())
    fail(ErrorKind::kDType, "query is " + describe(q) + ", key " + describe(k) + ", value " +
                                describe(v) + ": they must be of one floating dtype");
  if (mask.defined()) {
    m = read(mask, "mask");
    Shape scores = q.dims();
    scores.back() = k.dims()[k.ndim() - 2];
    if (m.dtype() != DType::kBool && m.dtype() != q.dtype())
      fail(ErrorKind::kDType,
           "mask is " + describe(m) + "; it must be bool, or " + name(q.dtype()) + " to be added");
    if (!broadcasts_to(m.dims(), scores))
      fail(ErrorKind::kShape, "mask has shape " + to_string(m.dims()) +
                                  ", which does not broadcast to the scores' " + to_string(scores) +
                                  ", those of query " + to_string(q.dims()) + " with key " +
                                  to_string(k.dims()));
  }
  double scale = options.scale.value_or(
      q.dims().back() > 0 ? 1.0 / std::sqrt(static_cast<double>(q.dims().back())) : 1.0);
  if (!(options.dropout >= 0 && options.dropout <= 1))
    fail(ErrorKind::kValue, "AttentionOptions::dropout is " + std::to_string(options.dropout) +
                                "; it must be in [0, 1]");
  if (options.dropout > 0)
    return dropped_attention(q, k, v, m, options, scale);
  return wrap(emit_attention(q, k, v, m, scale, options.causal)[0]);
}

Tensor scaled_dot_product_attention(const Tensor &query, const Tensor &key, const Tensor &value,
                                    const Tensor &mask, AttentionOptions options,
                                    Location location) {
  Session session("scaled_dot_product_attention", location);
  return attention(query, key, value, mask, options, location);
}

} // namespace weft
