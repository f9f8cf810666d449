#include "backends/cpu/device/matmul_epilogue.h"

#include <algorithm>

#include "runtime/threading/parallel_for.h"

namespace weft::backends::cpu {
namespace {

// Elements that are worth a second thread.
constexpr int64_t kGrainElements = 16384;

float apply(PostOp op, float x, float y) {
  switch (op) {
  case PostOp::kRelu:
    return x < 0 ? 0 : x;
  case PostOp::kAdd:
    return x + y;
  case PostOp::kSub:
    return x - y;
  case PostOp::kMul:
    return x * y;
  case PostOp::kMax:
    return x < y || y != y ? y : x;
  case PostOp::kMin:
    return x > y || y != y ? y : x;
  }
  return x;
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
               int64_t row) {
  const StridedShape &result = epilogue.problem.c;
  float *c = epilogue.c + row_offset(result, result, row);
  const float *other = shape == nullptr
                           ? nullptr
                           : static_cast<const float *>(addend) + row_offset(*shape, result, row);
  int64_t step = shape == nullptr || shape->dims.back() == 1 ? 0 : shape->strides.back();
  int64_t stride = result.strides.back();
  for (int64_t i = 0; i < result.dims.back(); ++i)
    c[i * stride] = apply(op, c[i * stride], other == nullptr ? 0 : other[i * step]);
}

int32_t apply_rows(void *data, int, int64_t begin, int64_t end) {
  const Epilogue &epilogue = *static_cast<const Epilogue *>(data);
  for (int64_t row = begin; row < end; ++row) {
    size_t next = 0;
    if (epilogue.problem.bias)
      apply_row(epilogue, PostOp::kAdd, &*epilogue.problem.bias, epilogue.addends[next++], row);
    for (const auto &[op, shape] : epilogue.problem.post_ops)
      apply_row(epilogue, op, shape ? &*shape : nullptr, shape ? epilogue.addends[next++] : nullptr,
                row);
  }
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

} // namespace weft::backends::cpu
