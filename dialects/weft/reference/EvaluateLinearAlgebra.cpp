// Reference evaluation of linear algebra: the formulas, row by row.
#include <numeric>
#include <vector>

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/Evaluation.h"

namespace weft::ir {

using namespace mlir;

namespace {

// A stack of matrices as doubles.
struct Matrices {
  explicit Matrices(const HostTensor &tensor)
      : rows(tensor.shape[tensor.shape.size() - 2]), columns(tensor.shape.back()),
        values(tensor.size()) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = tensor.getDouble(static_cast<int64_t>(i));
  }
  int64_t count() const {
    int64_t size = rows * columns;
    return size ? static_cast<int64_t>(values.size()) / size : 0;
  }
  double &at(int64_t matrix, int64_t row, int64_t column) {
    return values[(matrix * rows + row) * columns + column];
  }
  void storeTo(HostTensor &tensor) const {
    for (size_t i = 0; i < values.size(); ++i)
      tensor.set(static_cast<int64_t>(i), values[i]);
  }

  int64_t rows, columns;
  std::vector<double> values;
};

} // namespace

LogicalResult CholeskyOp::evaluate(EvalContext &ctx) {
  Matrices a(ctx.operand(0));
  int64_t n = a.columns;
  for (int64_t m = 0; m < a.count(); ++m)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        if (j > i) {
          a.at(m, i, j) = 0;
          continue;
        }
        double sum = a.at(m, i, j);
        for (int64_t k = 0; k < j; ++k)
          sum -= a.at(m, i, k) * a.at(m, j, k);
        if (i == j && !(sum > 0))
          return ctx.error("needs positive definite matrices; of matrix " + Twine(m) +
                           " the leading minor of order " + Twine(i + 1) + " is not positive");
        a.at(m, i, j) = i == j ? std::sqrt(sum) : sum / a.at(m, j, j);
      }
  a.storeTo(ctx.result());
  return success();
}

LogicalResult SolveTriangularOp::evaluate(EvalContext &ctx) {
  Matrices a(ctx.operand(0)), x(ctx.operand(1));
  int64_t n = a.columns;
  bool forward = getUpper() == getTransposed();
  for (int64_t m = 0; m < x.count(); ++m)
    for (int64_t c = 0; c < x.columns; ++c)
      for (int64_t step = 0; step < n; ++step) {
        int64_t i = forward ? step : n - 1 - step;
        double sum = x.at(m, i, c);
        for (int64_t done = 0; done < step; ++done) {
          int64_t k = forward ? done : n - 1 - done;
          sum -= (getTransposed() ? a.at(m, k, i) : a.at(m, i, k)) * x.at(m, k, c);
        }
        x.at(m, i, c) = getUnit() ? sum : sum / a.at(m, i, i);
      }
  x.storeTo(ctx.result());
  return success();
}

LogicalResult LuOp::evaluate(EvalContext &ctx) {
  Matrices a(ctx.operand(0));
  int64_t n = a.columns;
  std::vector<int64_t> order(n);
  for (int64_t m = 0; m < a.count(); ++m) {
    std::iota(order.begin(), order.end(), 0);
    for (int64_t j = 0; j < n; ++j) {
      int64_t pivot = j;
      for (int64_t i = j + 1; i < n; ++i)
        if (std::abs(a.at(m, i, j)) > std::abs(a.at(m, pivot, j)))
          pivot = i;
      std::swap(order[j], order[pivot]);
      for (int64_t k = 0; pivot != j && k < n; ++k)
        std::swap(a.at(m, j, k), a.at(m, pivot, k));
      double head = a.at(m, j, j);
      if (head == 0 && getRegular())
        return ctx.error("needs regular matrices; matrix " + Twine(m) +
                         " is singular: it has no pivot in column " + Twine(j));
      for (int64_t i = j + 1; i < n; ++i) {
        // Elements below a 0 are 0 or NaN.
        double factor = a.at(m, i, j) = head == 0 ? a.at(m, i, j) : a.at(m, i, j) / head;
        for (int64_t k = j + 1; k < n; ++k)
          a.at(m, i, k) -= factor * a.at(m, j, k);
      }
    }
    for (int64_t i = 0; i < n; ++i)
      ctx.result(1).setInt(m * n + i, order[i]);
  }
  a.storeTo(ctx.result());
  return success();
}

} // namespace weft::ir
