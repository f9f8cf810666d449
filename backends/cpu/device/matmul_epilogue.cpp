#include "backends/cpu/device/matmul_epilogue.h"

#include <algorithm>

#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Elements that are worth a second thread.
constexpr int64_t kGrainElements = 16384;

// What a post-op does is chosen once a row, and elements that follow each other are a loop of their
// own: so that compilers make vectors of it. One that repeats has a step of 0.
template <typename Function>
void apply_all(float *c, int64_t stride, const float *other, int64_t step, int64_t count,
               Function function) {
  if (stride == 1 && step == 1)
    for (int64_t i = 0; i < count; ++i)
      c[i] = function(c[i], other[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      c[i * stride] = function(c[i * stride], other[i * step]);
}

void apply(PostOp op, float *c, int64_t stride, const float *other, int64_t step, int64_t count) {
  auto with = [&](auto function) {
    apply_all(c, stride, other, step, count, function);
  };
  switch (op) {
  case PostOp::kRelu:
    return with([](float x, float) { return x < 0 ? 0 : x; });
  case PostOp::kAdd:
    return with([](float x, float y) { return x + y; });
  case PostOp::kSub:
    return with([](float x, float y) { return x - y; });
  case PostOp::kMul:
    return with([](float x, float y) { return x * y; });
  case PostOp::kMax:
    return with([](float x, float y) { return x < y || y != y ? y : x; });
  case PostOp::kMin:
    return with([](float x, float y) { return x > y || y != y ? y : x; });
  }
}

struct Epilogue {
  const MatmulProblem &problem;
  float *c;
  std::span<void *const> addends;
};

// Where row `row` (all dims but the last, in order) of a shape starts; a dim of 1 repeats.
int64_t row_offset(const StridedShape &shape, const StridedShape &result, int64_t row) {
  int64_t offset = 0;
  for (size_t i = result.dims.size() - 1; i-- > 0;) {
    if (shape.dims[i] != 1)
      offset += row % result.dims[i] * shape.strides[i];
    row /= result.dims[i];
  }
  return offset;
}

void apply_row(const Epilogue &epilogue, PostOp op, const StridedShape *shape, const void *addend,
               int64_t row, int64_t first, int64_t last) {
  const StridedShape &result = epilogue.problem.c;
  int64_t stride = result.strides.back();
  float *c = epilogue.c + row_offset(result, result, row) + first * stride;
  if (shape == nullptr)
    return apply(op, c, stride, c, stride, last - first);
  int64_t step = shape->dims.back() == 1 ? 0 : shape->strides.back();
  const float *other =
      static_cast<const float *>(addend) + row_offset(*shape, result, row) + first * step;
  apply(op, c, stride, other, step, last - first);
}

void apply_part(const Epilogue &epilogue, const ResultPart &part) {
  for (int64_t row = part.first_row; row < part.last_row; ++row) {
    size_t next = 0;
    auto apply_one = [&](PostOp op, const StridedShape *shape) {
      apply_row(epilogue, op, shape, shape ? epilogue.addends[next++] : nullptr, row,
                part.first_column, part.last_column);
    };
    if (epilogue.problem.bias)
      apply_one(PostOp::kAdd, &*epilogue.problem.bias);
    for (const auto &[op, shape] : epilogue.problem.post_ops)
      apply_one(op, shape ? &*shape : nullptr);
  }
}

int32_t apply_rows(void *data, int, int64_t begin, int64_t end) {
  const Epilogue &epilogue = *static_cast<const Epilogue *>(data);
  apply_part(epilogue, {begin, end, 0, epilogue.problem.c.dims.back()});
  return 0;
}

} // namespace

void apply_epilogue(const MatmulProblem &problem, float *c, std::span<void *const> addends,
                    int threads) {
  Epilogue epilogue{problem, c, addends};
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < problem.c.dims.size(); ++i)
    rows *= problem.c.dims[i];
  int64_t grain =
      std::max<int64_t>(kGrainElements / std::max<int64_t>(problem.c.dims.back(), 1), 1);
  runtime::parallel_for(rows, grain, threads, apply_rows, &epilogue);
}

void apply_epilogue_to(const ResultPart &part, const MatmulProblem &problem, float *c,
                       std::span<void *const> addends) {
  apply_part({problem, c, addends}, part);
}

} // namespace weft::backends::cpu
