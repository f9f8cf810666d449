// Functions that arrange elements. Views stand in frontend/tensor/.
#include <algorithm>
#include <optional>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

Tensor reshape(const Tensor &x, const Shape &shape, Location location) {
  return x.reshape(shape, location);
}
Tensor flatten(const Tensor &x, int64_t start_dim, int64_t end_dim, Location location) {
  return x.flatten(start_dim, end_dim, location);
}
Tensor squeeze(const Tensor &x, Dims dims, Location location) {
  return x.squeeze(std::move(dims), location);
}
Tensor unsqueeze(const Tensor &x, int64_t dim, Location location) {
  return x.unsqueeze(dim, location);
}
Tensor permute(const Tensor &x, const Shape &permutation, Location location) {
  return x.permute(permutation, location);
}
Tensor transpose(const Tensor &x, int64_t dim0, int64_t dim1, Location location) {
  return x.transpose(dim0, dim1, location);
}
Tensor broadcast_to(const Tensor &x, const Shape &shape, Location location) {
  Session session("broadcast_to", location);
  return x.expand(shape, location);
}

std::vector<Tensor> split(const Tensor &x, const Shape &sizes, int64_t dim, Location location) {
  Session session("split", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim"), total = 0;
  for (int64_t size : sizes) {
    if (size < 0)
      fail(ErrorKind::kValue, "sizes " + to_string(sizes) + " must not be negative");
    total += size;
  }
  if (total != type.dims[axis])
    fail(ErrorKind::kShape, "sizes " + to_string(sizes) + " sum to " + std::to_string(total) +
                                ", dimension " + std::to_string(dim) + " of shape " +
                                to_string(type.dims) + " does not");
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
  if (size <= 0)
    fail(ErrorKind::kValue, "size is " + std::to_string(size) + "; it must be positive");
  Shape sizes;
  for (int64_t left = type.dims[axis]; left > 0; left -= size)
    sizes.push_back(std::min(size, left));
  if (sizes.empty())
    sizes.push_back(0);
  return split(x, sizes, dim, location);
}

std::vector<Tensor> chunk(const Tensor &x, int64_t chunks, int64_t dim, Location location) {
  Session session("chunk", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (chunks <= 0)
    fail(ErrorKind::kValue, "chunks is " + std::to_string(chunks) + "; it must be positive");
  int64_t size = type.dims[axis];
  if (size == 0) // as many as asked for, as PyTorch's
    return split(x, Shape(static_cast<size_t>(chunks), 0), dim, location);
  return split(x, size / chunks + (size % chunks != 0), dim, location);
}

std::vector<Tensor> tensor_split(const Tensor &x, int64_t sections, int64_t dim,
                                 Location location) {
  Session session("tensor_split", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t size = type.dims[normalize_dim(dim, type.ndim(), "dim")];
  if (sections <= 0)
    fail(ErrorKind::kValue, "sections is " + std::to_string(sections) + "; it must be positive");
  Shape sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(size / sections + (i < size % sections));
  return split(x, sizes, dim);
}

std::vector<Tensor> tensor_split(const Tensor &x, const Shape &indices, int64_t dim,
                                 Location location) {
  Session session("tensor_split", location);
  int64_t axis = normalize_dim(dim, checked(x, "x")->type->ndim(), "dim");
  std::vector<Tensor> parts;
  std::optional<int64_t> start;
  for (int64_t index : indices) {
    parts.push_back(x.slice(axis, start, index));
    start = index;
  }
  parts.push_back(x.slice(axis, start));
  return parts;
}

namespace {

// Fails with the place in the list of one that is undefined.
void want_defined(const std::vector<Tensor> &tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].defined())
      checked(tensors[i], ("tensor " + std::to_string(i)).c_str());
}

} // namespace

Tensor cat(const std::vector<Tensor> &tensors, int64_t dim, Location location) {
  Session session("cat", location);
  if (tensors.empty())
    fail(ErrorKind::kValue, "there are no tensors to join");
  want_defined(tensors);
  std::vector<TensorArg> args(tensors.begin(), tensors.end());
  DType dtype = result_type(args);
  std::vector<Var> inputs;
  for (const TensorArg &arg : args)
    inputs.push_back(operand(arg, dtype, "tensors"));
  // A tensor of shape [0] adds nothing to tensors of any shape, as PyTorch's: loops start from one.
  auto is_nothing = [](const Var &input) {
    return input.dims() == Shape{0};
  };
  size_t first = static_cast<size_t>(std::ranges::find_if_not(inputs, is_nothing) - inputs.begin());
  if (first == inputs.size())
    first = 0;
  const Shape like = inputs[first].dims();
  int64_t rank = static_cast<int64_t>(like.size());
  if (rank == 0)
    fail(ErrorKind::kShape, "tensors without dimensions cannot be joined; use stack");
  int64_t axis = normalize_dim(dim, rank, "dim");
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool fits = inputs[i].ndim() == rank;
    for (int64_t d = 0; fits && d < rank; ++d)
      fits = d == axis || inputs[i].dims()[d] == like[static_cast<size_t>(d)];
    if (!fits && !is_nothing(inputs[i]))
      fail(ErrorKind::kShape, "tensor " + std::to_string(first) + " has shape " + to_string(like) +
                                  ", tensor " + std::to_string(i) + " has shape " +
                                  to_string(inputs[i].dims()) + ": all dimensions but " +
                                  std::to_string(axis) + " must be equal");
  }
  if (rank > 1)
    std::erase_if(inputs, is_nothing);
  return wrap(inputs.size() == 1 ? inputs[0] : emit_concat(inputs, axis));
}

Tensor stack(const std::vector<Tensor> &tensors, int64_t dim, Location location) {
  Session session("stack", location);
  if (tensors.empty())
    fail(ErrorKind::kValue, "there are no tensors to stack");
  want_defined(tensors);
  const Shape &shape = checked(tensors[0], "tensors")->type->dims;
  std::vector<Tensor> raised;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (checked(tensors[i], "tensors")->type->dims != shape)
      fail(ErrorKind::kShape, "tensor 0 has shape " + to_string(shape) + ", tensor " +
                                  std::to_string(i) + " has shape " +
                                  to_string(tensors[i].shape()) + ": all must be equal");
    raised.push_back(tensors[i].unsqueeze(dim, location));
  }
  return cat(raised, normalize_dim(dim, static_cast<int64_t>(shape.size()) + 1, "dim"), location);
}

namespace {

// The part [start, start + count * step) of x along dim, walked in steps of 1 or -1.
Var section(const Var &x, int64_t dim, int64_t start, int64_t count, int64_t step = 1) {
  Shape starts(x.ndim(), 0), limits = x.dims(), steps(x.ndim(), 1);
  starts[dim] = start;
  limits[dim] = count == 0 ? start : start + count * step;
  steps[dim] = step;
  return emit_slice(x, starts, limits, steps);
}

Var pad_constant(Var x, const Shape &before, const Shape &after, Scalar value) {
  Shape shape = x.dims(), starts(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t cut_front = std::max<int64_t>(-before[d], 0),
            cut_back = std::max<int64_t>(-after[d], 0);
    if (cut_front > shape[d] || cut_back > shape[d] - cut_front)
      fail(ErrorKind::kShape, "padding takes more from dimension " + std::to_string(d) +
                                  " of shape " + to_string(x.dims()) + " than it has");
    shape[d] -= cut_front + cut_back;
    if (cut_front || cut_back)
      x = section(x, static_cast<int64_t>(d), cut_front, shape[d]);
  }
  bool grows = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    starts[d] = std::max<int64_t>(before[d], 0);
    int64_t end = std::max<int64_t>(after[d], 0);
    grows = grows || starts[d] > 0 || end > 0;
    if (__builtin_add_overflow(shape[d], starts[d], &shape[d]) ||
        __builtin_add_overflow(shape[d], end, &shape[d]))
      fail(ErrorKind::kShape, "padding " + to_string(Shape{before[d], after[d]}) +
                                  " of dimension " + std::to_string(d) + " of shape " +
                                  to_string(x.dims()) +
                                  " makes more elements than an int64 counts");
  }
  if (!grows)
    return x;
  return emit_insert_slice(broadcast(make_fitting_scalar(value, x.dtype()), shape), x, starts,
                           Shape(shape.size(), 1));
}

// One dim with its mirrored or repeated borders.
Var pad_border(const Var &x, int64_t dim, int64_t before, int64_t after, PadMode mode) {
  int64_t size = x.dims()[dim];
  if (before == 0 && after == 0)
    return x;
  bool reflect = mode == PadMode::kReflect;
  if (before < 0 || after < 0 || (reflect ? std::max(before, after) >= size : size == 0))
    fail(ErrorKind::kShape,
         "padding " + to_string(Shape{before, after}) + " of dimension " + std::to_string(dim) +
             " of shape " + to_string(x.dims()) +
             (reflect
                  ? ": a reflection needs 0 or more, and less than the dimension has"
                  : ": the border of a dimension with elements can be repeated 0 or more times"));
  std::vector<Var> parts;
  auto border = [&](int64_t at, int64_t count) {
    Shape shape = x.dims();
    shape[dim] = count;
    return emit_broadcast(section(x, dim, at, 1), shape);
  };
  if (before)
    parts.push_back(reflect ? section(x, dim, before, before, -1) : border(0, before));
  parts.push_back(x);
  if (after)
    parts.push_back(reflect ? section(x, dim, size - 2, after, -1) : border(size - 1, after));
  return emit_concat(parts, dim);
}

} // namespace

Tensor pad(const Tensor &x, const Shape &padding, PadMode mode, Scalar value, Location location) {
  Session session("pad", location);
  Var var = read(x, "x");
  if (padding.size() % 2 != 0 || static_cast<int64_t>(padding.size()) > 2 * var.ndim())
    fail(ErrorKind::kValue,
         "padding " + to_string(padding) +
             " must have two numbers for each of the last dimensions of x, whose shape is " +
             to_string(var.dims()));
  Shape before(var.ndim(), 0), after(var.ndim(), 0);
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    before[var.ndim() - 1 - i] = padding[2 * i];
    after[var.ndim() - 1 - i] = padding[2 * i + 1];
  }
  if (mode == PadMode::kConstant)
    return wrap(pad_constant(var, before, after, value));
  for (int64_t d = 0; d < x.ndim(); ++d)
    var = pad_border(var, d, before[d], after[d], mode);
  return wrap(var);
}

Tensor flip(const Tensor &x, Dims dims, Location location) {
  Session session("flip", location);
  Var var = read(x, "x");
  for (int64_t dim : normalize_dims(dims, var.ndim(), "dims"))
    var = section(var, dim, var.dims()[dim] - 1, var.dims()[dim], -1);
  return wrap(var);
}

Tensor repeat_interleave(const Tensor &x, int64_t repeats, std::optional<int64_t> dim,
                         Location location) {
  Session session("repeat_interleave", location);
  if (repeats < 0)
    fail(ErrorKind::kValue, "repeats is " + std::to_string(repeats) + "; it must not be negative");
  Var var = read(x, "x");
  if (!dim)
    var = emit_reshape(var, {var.type().elements});
  int64_t axis = dim ? normalize_dim_or_scalar(*dim, var.ndim(), "dim") : 0;
  if (var.ndim() == 0)
    var = emit_reshape(var, {1});
  Shape raised = var.dims(), wide, shape = var.dims();
  raised.insert(raised.begin() + axis + 1, 1);
  wide = raised;
  wide[axis + 1] = repeats;
  shape[axis] *= repeats;
  return wrap(emit_reshape(emit_broadcast(emit_reshape(var, raised), wide), shape));
}

Tensor repeat(const Tensor &x, const Shape &repeats, Location location) {
  Session session("repeat", location);
  Var var = read(x, "x");
  if (static_cast<int64_t>(repeats.size()) < var.ndim())
    fail(ErrorKind::kValue, "repeats " + to_string(repeats) +
                                " has fewer entries than x, whose shape is " +
                                to_string(var.dims()) + ", has dimensions");
  Shape raised, wide, shape, dims = var.dims();
  dims.insert(dims.begin(), repeats.size() - dims.size(), 1);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (repeats[d] < 0)
      fail(ErrorKind::kValue, "repeats " + to_string(repeats) + " must not be negative");
    raised.insert(raised.end(), {1, dims[d]});
    wide.insert(wide.end(), {repeats[d], dims[d]});
    shape.push_back(repeats[d] * dims[d]);
  }
  return wrap(emit_reshape(emit_broadcast(emit_reshape(var, raised), wide), shape));
}

namespace {

// Keeps x where column - row <= diagonal (lower) or >= diagonal, 0 elsewhere.
Tensor triangle(const Tensor &x, int64_t diagonal, bool lower) {
  Var var = read(x, "x");
  int64_t rank = var.ndim();
  if (rank < 2)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + "; it must have at least two dimensions");
  Shape matrix = {var.dims()[rank - 2], var.dims()[rank - 1]};
  // Diagonals beyond the matrix are all alike, and a row's number plus one of these is an int64.
  diagonal = std::clamp(diagonal, -matrix[0], matrix[1]);
  Var row = emit_iota(DType::kInt64, matrix, 0), column = emit_iota(DType::kInt64, matrix, 1);
  Var limit = emit_add(row, broadcast(emit_constant(diagonal, DType::kInt64), matrix));
  Var kept =
      broadcast(emit_compare(lower ? Comparison::kLe : Comparison::kGe, column, limit), var.dims());
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

namespace {

// The sum of clamp(row + shift, 0, columns) over the rows, in numbers that hold what is added up
// and taken away on the way.
__int128 count_before(__int128 rows, __int128 columns, __int128 shift) {
  // The terms are 0 up to row `begins`, and `columns` from row `ends` on.
  __int128 begins = std::clamp<__int128>(-shift, 0, rows),
           ends = std::clamp<__int128>(columns - shift, 0, rows);
  return (ends - begins) * (begins + ends - 1 + 2 * shift) / 2 + (rows - ends) * columns;
}

// The positions that triangle() keeps.
Tensor triangle_indices(int64_t rows, int64_t columns, int64_t diagonal, bool lower) {
  int64_t all = 0;
  if (rows < 0 || columns < 0)
    fail(ErrorKind::kValue, "rows is " + std::to_string(rows) + " and columns is " +
                                std::to_string(columns) + "; they must not be negative");
  if (__builtin_mul_overflow(rows, columns, &all))
    fail(ErrorKind::kShape, "a matrix of " + std::to_string(rows) + " rows and " +
                                std::to_string(columns) +
                                " columns has more elements than an int64 counts");
  if (all == 0)
    return zeros({2, 0}, int64);
  // Of a row the columns below row + shift are those of the lower triangle, the others the upper
  // one's.
  int64_t shift = lower ? std::clamp(diagonal, -rows, columns - 1) + 1
                        : std::clamp(diagonal, -rows, columns),
          below = static_cast<int64_t>(count_before(rows, columns, shift)),
          count = lower ? below : all - below;
  if (count == 0)
    return zeros({2, 0}, int64);
  Tensor edge = (arange(rows) + shift).clamp(0, columns), length = lower ? edge : columns - edge;
  // What a row's first column is more than the number of positions before the row.
  Tensor ends = cumsum(length, 0), offset = lower ? length - ends : columns - ends;
  // The row of a place is how many rows end before it: a mark for each of them, and a running sum,
  // where a search would be one for each place. Rows that end behind the last place mark no place.
  Tensor marks = index_add(zeros({count + 1}, int64), 0, ends, ones({rows}, int64)),
         row = cumsum(marks.narrow(0, 0, count), 0);
  return stack({row, arange(count) + index_select(offset, 0, row)});
}

} // namespace

Tensor tril_indices(int64_t rows, int64_t columns, int64_t diagonal, Location location) {
  Session session("tril_indices", location);
  return triangle_indices(rows, columns, diagonal, true);
}

Tensor triu_indices(int64_t rows, int64_t columns, int64_t diagonal, Location location) {
  Session session("triu_indices", location);
  return triangle_indices(rows, columns, diagonal, false);
}

} // namespace weft
