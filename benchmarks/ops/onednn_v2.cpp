// By oneDNN 2's C++ API, whose operation descriptors are gone in later ones.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "benchmarks/common/report.h"
#include "benchmarks/ops/onednn.h"

namespace weft::benchmarks {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr int kWarmUps = 3,
              kTrials = 5; // of each candidate; the least time counts, as in the suite

const dnnl::engine &engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream &stream() {
  static dnnl::stream stream(engine());
  return stream;
}

// A primitive with operands of its own.
struct Call {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;

  void run() {
    primitive.execute(stream(), arguments);
    stream().wait();
  }
};

// Numbers in [-1, 1) wherever they lie: what is computed does not matter, but zeros and denormals
// have times of their own.
memory filled(const memory::desc &desc) {
  memory made(desc, engine());
  auto *values = static_cast<float *>(made.get_data_handle());
  uint32_t state = 1;
  for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return made;
}

template <typename Primitive, typename PrimitiveDesc>
Call call_of(const PrimitiveDesc &desc, std::initializer_list<int> operands) {
  Call call{Primitive(desc), {}};
  for (int operand : operands)
    call.arguments[operand] = filled(desc.query_md(dnnl::query::exec_arg_md, operand));
  return call;
}

using Candidate = std::function<Call()>;

// The fastest of the candidates that the library has.
Call best_of(const std::vector<Candidate> &candidates) {
  std::optional<Call> best;
  double least = INFINITY;
  for (const Candidate &candidate : candidates) {
    std::optional<Call> call;
    try {
      call = candidate();
    } catch (const dnnl::error &error) {
      if (error.status != dnnl_unimplemented)
        throw;
      continue;
    }
    for (int i = 0; i < kWarmUps; ++i)
      call->run();
    double time = INFINITY;
    for (int i = 0; i < kTrials; ++i) {
      double start = now();
      call->run();
      time = std::min(time, now() - start);
    }
    if (time < least) {
      least = time;
      best = std::move(call);
    }
  }
  if (!best)
    throw dnnl::error(dnnl_unimplemented, "oneDNN has none of the layouts that were tried");
  return *std::move(best);
}

//===-- Matmul --------------------------------------------------------------------------------===//

struct Matrix {
  int64_t rows, columns;
  bool transposed; // stored as [columns, rows]
  Matrix flipped() const {
    return {columns, rows, !transposed};
  }
};

memory::desc desc_of(int64_t batch, const Matrix &m) {
  Dims dims{m.rows, m.columns}, strides{m.columns, 1};
  if (m.transposed)
    strides = {1, m.rows};
  if (batch > 1) {
    dims.insert(dims.begin(), batch);
    strides.insert(strides.begin(), m.rows * m.columns);
  }
  return {dims, memory::data_type::f32, strides};
}

memory::desc any(const memory::desc &desc) {
  return {desc.dims(), desc.data_type(), memory::format_tag::any};
}

// a times b; b in a form of the library's if it may be.
Call product(int64_t batch, const Matrix &a, const Matrix &b, bool is_weight, bool bias) {
  memory::desc left = desc_of(batch, a), right = desc_of(batch, b),
               result = desc_of(batch, {a.rows, b.columns, false});
  memory::desc row(batch > 1 ? Dims{1, 1, b.columns} : Dims{1, b.columns}, memory::data_type::f32,
                   batch > 1 ? memory::format_tag::abc : memory::format_tag::ab);
  auto matmul = [=](const memory::desc &weights) {
    dnnl::matmul::desc desc = bias ? dnnl::matmul::desc(left, weights, row, result)
                                   : dnnl::matmul::desc(left, weights, result);
    dnnl::matmul::primitive_desc primitive(desc, engine());
    return bias ? call_of<dnnl::matmul>(
                      primitive, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST})
                : call_of<dnnl::matmul>(primitive, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
  };
  std::vector<Candidate> candidates = {[=] { return matmul(right); }};
  if (is_weight)
    candidates.push_back([=] { return matmul(any(right)); });
  if (is_weight && batch == 1 && !a.transposed)
    candidates.push_back([=] {
      memory::desc weights({b.columns, b.rows}, memory::data_type::f32, memory::format_tag::any);
      memory::desc vector({b.columns}, memory::data_type::f32, memory::format_tag::x);
      constexpr auto kind = dnnl::prop_kind::forward_inference;
      using Inner = dnnl::inner_product_forward;
      Inner::primitive_desc primitive(bias ? Inner::desc(kind, left, weights, vector, result)
                                           : Inner::desc(kind, left, weights, result),
                                      engine());
      return bias ? call_of<Inner>(primitive,
                                   {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST})
                  : call_of<Inner>(primitive, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    });
  return best_of(candidates);
}

std::vector<Call> calls_of(const MatmulProblem &p) {
  Matrix a{p.m, p.k, false}, b{p.k, p.n, p.transposed}, gradient{p.m, p.n, false};
  if (!p.backward)
    return {product(p.batch, a, b, p.is_weight, p.bias)};
  Call by_a = product(p.batch, gradient, b.flipped(), p.is_weight, false);
  Call by_b = p.transposed ? product(p.batch, gradient.flipped(), a, false, false)
                           : product(p.batch, a.flipped(), gradient, false, false);
  return {by_a, by_b};
}

//===-- Convolution ---------------------------------------------------------------------------===//

enum class Direction { kForward, kByImage, kByWeight };

Call convolution(const ConvolutionProblem &p, Direction direction, memory::format_tag layout) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  constexpr auto f32 = memory::data_type::f32;
  memory::desc image({p.batch, p.channels, p.image, p.image}, f32, layout);
  memory::desc result({p.batch, p.outputs, p.result(), p.result()}, f32, layout);
  memory::desc weight(
      p.groups > 1 ? Dims{p.groups, p.outputs / p.groups, p.channels / p.groups, p.kernel, p.kernel}
                   : Dims{p.outputs, p.channels, p.kernel, p.kernel},
      f32, memory::format_tag::any);
  // Rows behind the last window are not padding but left over: a negative number.
  int64_t behind = (p.result() - 1) * p.stride + p.kernel - p.image - p.padding;
  Dims strides{p.stride, p.stride}, before{p.padding, p.padding}, after{behind, behind};
  if (direction == Direction::kForward) {
    dnnl::convolution_forward::primitive_desc primitive(
        {dnnl::prop_kind::forward_inference, direct, image, weight, result, strides, before, after},
        engine());
    return call_of<dnnl::convolution_forward>(primitive,
                                              {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
  }
  // What a gradient is like may follow from its forward primitive.
  dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, direct, image, weight, result, strides, before, after},
      engine());
  if (direction == Direction::kByImage) {
    dnnl::convolution_backward_data::primitive_desc primitive(
        {direct, image, weight, result, strides, before, after}, engine(), hint);
    return call_of<dnnl::convolution_backward_data>(
        primitive, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC});
  }
  dnnl::convolution_backward_weights::primitive_desc primitive(
      {direct, image, weight, result, strides, before, after}, engine(), hint);
  return call_of<dnnl::convolution_backward_weights>(
      primitive, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS});
}

std::vector<Call> calls_of(const ConvolutionProblem &p) {
  std::vector<Call> calls;
  std::vector<Direction> directions = {Direction::kForward};
  if (p.backward)
    directions = {Direction::kByImage, Direction::kByWeight};
  for (Direction direction : directions) {
    std::vector<Candidate> candidates;
    for (memory::format_tag layout :
         {memory::format_tag::any, memory::format_tag::nhwc, memory::format_tag::nchw})
      candidates.push_back([=] { return convolution(p, direction, layout); });
    calls.push_back(best_of(candidates));
  }
  return calls;
}

std::vector<Call> calls_of(std::monostate) {
  return {};
}

} // namespace

std::function<void()> onednn_best(const LibraryProblem &problem) {
  std::vector<Call> calls = std::visit([](const auto &known) { return calls_of(known); }, problem);
  if (calls.empty())
    return {};
  return [calls]() mutable {
    for (Call &call : calls)
      call.run();
  };
}

} // namespace weft::benchmarks
