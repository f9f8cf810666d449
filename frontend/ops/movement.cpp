// Functions that arrange elements. Views stand in frontend/tensor/.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

Tensor reshape(const Tensor &x, const Shape &shape, Location location) { return x.reshape(shape, location); }
Tensor flatten(const Tensor &x, int64_t start_dim, int64_t end_dim, Location location) { return x.flatten(start_dim, end_dim, location); }
Tensor squeeze(const Tensor &x, Dims dims, Location location) { return x.squeeze(std::move(dims), location); }
Tensor unsqueeze(const Tensor &x, int64_t dim, Location location) { return x.unsqueeze(dim, location); }
Tensor permute(const Tensor &x, const Shape &permutation, Location location) { return x.permute(permutation, location); }
Tensor transpose(const Tensor &x, int64_t dim0, int64_t dim1, Location location) { return x.transpose(dim0, dim1, location); }
Tensor broadcast_to(const Tensor &x, const Shape &shape, Location location) { return x.expand(shape, location); }

std::vector<Tensor> split(const Tensor &x, const Shape &sizes, int64_t dim, Location location) {
  Session session("split", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim"), total = 0;
  for (int64_t size : sizes) {
    if (size < 0) fail(ErrorKind::kValue, "sizes " + to_string(sizes) + " must not be negative");
    total += size;
  }
  if (type.ndim() == 0 || total != type.dims[axis])
    fail(ErrorKind::kShape, "sizes " + to_string(sizes) + " sum to " + std::to_string(total) + ", dimension " + std::to_string(dim) +
                                " of shape " + to_string(type.dims) + " does not");
  std::vector<Tensor> pieces;
  int64_t start = 0;
  for (int64_t size : sizes) {
    pieces.push_back(x.narrow(axis, start, size, location));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor &x, int64_t size, int64_t dim, Location location) {
  Session session("split", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (size <= 0) fail(ErrorKind::kValue, "size is " + std::to_string(size) + "; it must be positive");
  if (type.ndim() == 0) fail(ErrorKind::kShape, "a tensor without dimensions cannot be split");
  Shape sizes;
  for (int64_t left = type.dims[axis]; left > 0; left -= size) sizes.push_back(std::min(size, left));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, dim, location);
}

std::vector<Tensor> chunk(const Tensor &x, int64_t chunks, int64_t dim, Location location) {
  Session session("chunk", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (chunks <= 0) fail(ErrorKind::kValue, "chunks is " + std::to_string(chunks) + "; it must be positive");
  if (type.ndim() == 0) fail(ErrorKind::kShape, "a tensor without dimensions cannot be split");
  return split(x, std::max<int64_t>(1, (type.dims[axis] + chunks - 1) / chunks), dim, location);
}

Tensor cat(const std::vector<Tensor> &tensors, int64_t dim, Location location) {
  Session session("cat", location);
  if (tensors.empty()) fail(ErrorKind::kValue, "there are no tensors to join");
  std::vector<TensorArg> args(tensors.begin(), tensors.end());
  DType dtype = result_type(args);
  std::vector<Var> inputs;
  for (const TensorArg &arg : args) inputs.push_back(operand(arg, dtype, "tensors"));
  int64_t rank = inputs[0].ndim();
  if (rank == 0) fail(ErrorKind::kShape, "tensors without dimensions cannot be joined; use stack");
  int64_t axis = normalize_dim(dim, rank, "dim");
  for (size_t i = 1; i < inputs.size(); ++i) {
    bool fits = inputs[i].ndim() == rank;
    for (int64_t d = 0; fits && d < rank; ++d) fits = d == axis || inputs[i].dims()[d] == inputs[0].dims()[d];
    if (!fits)
      fail(ErrorKind::kShape, "tensor 0 has shape " + to_string(inputs[0].dims()) + ", tensor " + std::to_string(i) + " has shape " +
                                  to_string(inputs[i].dims()) + ": all dimensions but " + std::to_string(axis) + " must be equal");
  }
  return wrap(inputs.size() == 1 ? inputs[0] : emit_concat(inputs, axis));
}

Tensor stack(const std::vector<Tensor> &tensors, int64_t dim, Location location) {
  Session session("stack", location);
  if (tensors.empty()) fail(ErrorKind::kValue, "there are no tensors to stack");
  const Shape &shape = checked(tensors[0], "tensors")->type->dims;
  std::vector<Tensor> raised;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (checked(tensors[i], "tensors")->type->dims != shape)
      fail(ErrorKind::kShape, "tensor 0 has shape " + to_string(shape) + ", tensor " + std::to_string(i) + " has shape " +
                                  to_string(tensors[i].shape()) + ": all must be equal");
    raised.push_back(tensors[i].unsqueeze(dim, location));
  }
  return cat(raised, normalize_dim(dim, static_cast<int64_t>(shape.size()) + 1, "dim"), location);
}

namespace {

// Keeps x where column - row <= diagonal (lower) or >= diagonal, 0 elsewhere.
Tensor triangle(const Tensor &x, int64_t diagonal, bool lower) {
  Var var = read(x, "x");
  int64_t rank = var.ndim();
  if (rank < 2) fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) + "; it must have at least two dimensions");
  Shape matrix = {var.dims()[rank - 2], var.dims()[rank - 1]};
  Var row = emit_iota(DType::kInt64, matrix, 0), column = emit_iota(DType::kInt64, matrix, 1);
  Var limit = emit_binary(Binary::kAdd, row, broadcast(emit_constant(diagonal, DType::kInt64), matrix));
  Var kept = broadcast(emit_compare(lower ? Comparison::kLe : Comparison::kGe, column, limit), var.dims());
  return wrap(emit_select(kept, var, broadcast(emit_constant(0, var.dtype()), var.dims())));
}

} // namespace

Tensor tril(const Tensor &x, int64_t diagonal, Location location) {
  Session session("tril", location);
  return triangle(x, diagonal, true);
}

Tensor triu(const Tensor &x, int64_t diagonal, Location location) {
  Session session("triu", location);
  return triangle(x, diagonal, false);
}

} // namespace weft
