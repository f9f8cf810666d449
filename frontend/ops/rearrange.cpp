// Functions that arrange elements and are made of slices, views and index_put.
#include <algorithm>
#include <numeric>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// The place where the dim of x begins does not decide the op's shapes, so that a shift that changes
// is no program of its own.
Tensor roll_one(const Tensor &x, int64_t shift, int64_t axis) {
  int64_t n = x.shape()[axis];
  if (n == 0)
    return x;
  return cat({x, x}, axis).narrow(axis, (n - shift % n) % n, n);
}

} // namespace

Tensor roll(const Tensor &x, const Shape &shifts, Dims dims, Location location) {
  Session session("roll", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (dims.all()) {
    if (shifts.size() != 1)
      fail(ErrorKind::kValue, "shifts " + to_string(shifts) +
                                  ": without dims there must be one, of the flattened tensor");
    return roll_one(x.flatten(), shifts[0], 0).reshape(type.dims);
  }
  if (shifts.size() != dims.values().size())
    fail(ErrorKind::kValue, "shifts " + to_string(shifts) + " and dims " +
                                to_string(dims.values()) + " must be equally many");
  Tensor result = x;
  for (size_t i = 0; i < shifts.size(); ++i)
    result = roll_one(result, shifts[i], normalize_dim(dims.values()[i], type.ndim(), "dims"));
  return result;
}

Tensor roll(const Tensor &x, int64_t shift, int64_t dim, Location location) {
  return roll(x, Shape{shift}, Dims{dim}, location);
}

std::vector<Tensor> unbind(const Tensor &x, int64_t dim, Location location) {
  Session session("unbind", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < type.dims[axis]; ++i)
    parts.push_back(x.select(axis, i));
  return parts;
}

Tensor movedim(const Tensor &x, int64_t source, int64_t destination, Location location) {
  Session session("movedim", location);
  int64_t rank = checked(x, "x")->type->ndim();
  int64_t from = normalize_dim_or_scalar(source, rank, "source"),
          to = normalize_dim_or_scalar(destination, rank, "destination");
  Shape order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (rank > 0) {
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
  }
  return x.permute(order);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor> &axes, Location location) {
  Session session("meshgrid", location);
  Shape shape;
  for (const Tensor &axis : axes) {
    const TypeInfo &type = *checked(axis, "axes")->type;
    if (type.ndim() > 1)
      fail(ErrorKind::kShape, "axis " + std::to_string(shape.size()) + " has shape " +
                                  to_string(type.dims) + "; each must be a vector or a number");
    shape.push_back(type.elements);
  }
  std::vector<Tensor> grids;
  for (size_t i = 0; i < axes.size(); ++i) {
    Shape one(axes.size(), 1);
    one[i] = shape[i];
    grids.push_back(axes[i].reshape(one).expand(shape));
  }
  return grids;
}

Tensor diagonal(const Tensor &x, int64_t offset, int64_t dim0, int64_t dim1, Location location) {
  Session session("diagonal", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t rank = type.ndim();
  if (rank < 2)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(type.dims) + "; a diagonal needs two dimensions");
  int64_t row = normalize_dim(dim0, rank, "dim0"), column = normalize_dim(dim1, rank, "dim1");
  if (row == column)
    fail(ErrorKind::kValue, "dim0 and dim1 are both dimension " + std::to_string(row));
  Shape order;
  for (int64_t d = 0; d < rank; ++d)
    if (d != row && d != column)
      order.push_back(d);
  order.push_back(row);
  order.push_back(column);
  int64_t n = type.dims[row], m = type.dims[column];
  int64_t count =
      std::max<int64_t>(offset >= 0 ? std::min(n, m - offset) : std::min(n + offset, m), 0);
  Tensor flat = x.permute(order).flatten(-2);
  if (count == 0)
    return flat.narrow(-1, 0, 0);
  int64_t start = offset >= 0 ? offset : -offset * m;
  return flat.slice(-1, start, start + (count - 1) * (m + 1) + 1, m + 1);
}

namespace {

// The rows of a matrix that has x's last dim on the diagonal at this offset.
int64_t rows_around(const TypeInfo &x, int64_t offset) {
  int64_t rows = x.dims.back();
  if (offset >= 0 ? __builtin_add_overflow(rows, offset, &rows)
                  : __builtin_sub_overflow(rows, offset, &rows))
    fail(ErrorKind::kShape, "offset is " + std::to_string(offset) + ", x has shape " +
                                to_string(x.dims) +
                                ": the matrix would have more rows than an int64 counts");
  return rows;
}

} // namespace

Tensor diag(const Tensor &x, int64_t offset, Location location) {
  Session session("diag", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 2)
    return diagonal(x, offset);
  if (type.ndim() != 1)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(type.dims) + "; it must be a vector or a matrix");
  int64_t n = rows_around(type, offset);
  Tensor result = zeros({n, n}, type.dtype);
  diagonal(result, offset).copy_(x);
  return result;
}

Tensor diag_embed(const Tensor &x, int64_t offset, int64_t dim1, int64_t dim2, Location location) {
  Session session("diag_embed", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 0)
    fail(ErrorKind::kShape, "x has no dimensions; its last one is to become a diagonal");
  int64_t rank = type.ndim() + 1, row = normalize_dim(dim1, rank, "dim1"),
          column = normalize_dim(dim2, rank, "dim2");
  if (row == column)
    fail(ErrorKind::kValue, "dim1 and dim2 are both dimension " + std::to_string(row));
  Shape shape = type.dims;
  shape.back() = rows_around(type, offset);
  shape.push_back(shape.back());
  Tensor matrices = zeros(shape, type.dtype);
  diagonal(matrices, offset, rank - 2, rank - 1).copy_(x);
  Shape order;
  for (int64_t d = 0, batch = 0; d < rank; ++d)
    order.push_back(d == row ? rank - 2 : d == column ? rank - 1 : batch++);
  return matrices.permute(order);
}

Tensor rot90(const Tensor &x, int64_t k, Dims dims, Location location) {
  Session session("rot90", location);
  int64_t rank = checked(x, "x")->type->ndim();
  if (dims.all() || dims.values().size() != 2)
    fail(ErrorKind::kValue,
         "dims " + to_string(dims.values()) + " must be two: those of the plane to turn in");
  int64_t from = normalize_dim(dims.values()[0], rank, "dims"),
          to = normalize_dim(dims.values()[1], rank, "dims");
  if (from == to)
    fail(ErrorKind::kValue, "dims " + to_string(dims.values()) + " are the same dimension");
  switch ((k % 4 + 4) % 4) {
  case 1:
    return x.flip(to).transpose(from, to);
  case 2:
    return x.flip({from, to});
  case 3:
    return x.flip(from).transpose(from, to);
  default:
    return x.clone();
  }
}

Tensor unflatten(const Tensor &x, int64_t dim, const Shape &sizes, Location location) {
  Session session("unflatten", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim"), known = 1, unknown = 0;
  if (sizes.empty())
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) +
                                ", sizes are []: there must be sizes to split it into");
  for (int64_t size : sizes) {
    if (size == -1)
      ++unknown;
    else
      known *= size;
  }
  int64_t whole = type.dims[axis];
  bool fits = unknown == 0 ? known == whole : unknown == 1 && known > 0 && whole % known == 0;
  if (!fits)
    fail(ErrorKind::kShape, "sizes " + to_string(sizes) + " do not make up dimension " +
                                std::to_string(axis) + " of shape " + to_string(type.dims) +
                                ", which is " + std::to_string(whole));
  Shape shape(type.dims.begin(), type.dims.begin() + axis);
  for (int64_t size : sizes)
    shape.push_back(size == -1 ? whole / known : size);
  shape.insert(shape.end(), type.dims.begin() + axis + 1, type.dims.end());
  return x.reshape(shape);
}

namespace {

// A window of as many blocks is put together of its blocks; one of a few more of shorter windows,
// at most so many. Of more slices a kernel takes longer to compile and to run than a lookup of each
// element.
constexpr int64_t kWindowParts = 16, kShortWindow = 8, kShortWindows = 3;

// Windows of `size` along the axis, whose first elements are `step` apart. Both are whole blocks,
// so that the q-th blocks of all windows are a slice of the blocks.
Tensor windows_of_blocks(const Tensor &x, int64_t axis, int64_t block, int64_t size, int64_t step) {
  const Shape &dims = x.shape();
  int64_t blocks = dims[axis] / block, parts = size / block;
  Shape shape(dims.begin(), dims.begin() + axis);
  shape.insert(shape.end(), {blocks, block});
  shape.insert(shape.end(), dims.begin() + axis + 1, dims.end());
  // Windows of `many` blocks, whose first ones are `apart` rows apart, where each row holds `width`
  // blocks, its own and those that follow.
  auto join = [&](const Tensor &rows, int64_t width, int64_t many, int64_t count, int64_t apart) {
    std::vector<Tensor> pieces;
    for (int64_t done = 0; done < many; done += width) {
      int64_t at = std::min(done, many - width); // the last row may begin in the one before
      pieces.push_back(rows.slice(axis, at, at + (count - 1) * apart + 1, apart)
                           .narrow(axis + 1, (done - at) * block, (width - done + at) * block));
    }
    return cat(pieces, axis + 1);
  };
  Tensor rows = x.narrow(axis, 0, blocks * block).reshape(shape);
  int64_t width = parts <= kWindowParts ? 1 : kShortWindow;
  if (width > 1)
    rows = join(rows, 1, width, blocks - width + 1, 1);
  int64_t count = (dims[axis] - size) / step + 1;
  return join(rows, width, parts, count, step / block).movedim(axis + 1, -1);
}

} // namespace

Tensor Tensor::unfold(int64_t dim, int64_t size, int64_t step, Location location) const {
  Session session("unfold", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() == 0) { // as a vector of one element, which is the one window
    if (size < 0 || size > 1 || step < 1)
      fail(ErrorKind::kValue, "size is " + std::to_string(size) + " and step is " +
                                  std::to_string(step) +
                                  ": of one element there are windows of 0 or 1, at steps of at "
                                  "least 1");
    return reshape({1}).narrow(0, 0, size).clone();
  }
  int64_t room = type.dims[axis];
  if (size < 0 || size > room)
    fail(ErrorKind::kValue, "size is " + std::to_string(size) + "; dimension " +
                                std::to_string(axis) + " of shape " + weft::to_string(type.dims) +
                                " has windows of 0 to " + std::to_string(room));
  if (step < 1)
    fail(ErrorKind::kValue, "step is " + std::to_string(step) + "; it must be positive");
  // A lookup of each element fills no vectors. Of windows with gaps its gradient has less to write.
  int64_t block = std::gcd(size, step), parts = size / block;
  if (size >= step && (parts <= kWindowParts ||
                       (step == block && parts <= kShortWindow * kShortWindows)))
    return windows_of_blocks(*this, axis, block, size, step);
  Tensor starts = arange((room - size) / step + 1) * step;
  return index_select(axis, starts.unsqueeze(1) + arange(size)).movedim(axis + 1, -1);
}

Tensor take_along_dim(const Tensor &x, const Tensor &indices, int64_t dim, Location location) {
  Session session("take_along_dim", location);
  const TypeInfo &type = *checked(x, "x")->type, &at = *checked(indices, "indices")->type;
  if (type.ndim() != at.ndim() || type.ndim() == 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ", indices have shape " +
                                to_string(at.dims) +
                                ": both must have as many dimensions, at least one");
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Shape from = type.dims, to = at.dims;
  for (int64_t d = 0; d < type.ndim(); ++d)
    if (d != axis && from[d] != to[d] && from[d] != 1 && to[d] != 1)
      fail(ErrorKind::kShape, "x has shape " + to_string(from) + ", indices have shape " +
                                  to_string(to) + ": each dimension but " + std::to_string(axis) +
                                  " must be equal or 1");
  from[axis] = to[axis] = 1;
  Shape common = broadcast_shape(from, to, "x", "indices");
  from = to = common;
  from[axis] = type.dims[axis];
  to[axis] = at.dims[axis];
  return gather(x.expand(from), axis, indices.expand(to));
}

Tensor take(const Tensor &x, const Tensor &indices, Location location) {
  Session session("take", location);
  checked(x, "x");
  const TypeInfo &at = *checked(indices, "indices")->type;
  if (at.dtype != int64 && at.dtype != int32)
    fail(ErrorKind::kDType,
         "indices are " + describe(at) + "; they must be int64 or int32: convert with to(int64)");
  return wrap(emit_index_select(read(x.reshape({-1}), "x"), read(indices, "indices"), 0));
}

Tensor cartesian_prod(const std::vector<Tensor> &vectors, Location location) {
  Session session("cartesian_prod", location);
  if (vectors.empty())
    fail(ErrorKind::kValue, "vectors is empty; give at least one tensor");
  for (size_t i = 0; i < vectors.size(); ++i)
    if (const Shape &dims = checked(vectors[i], "vectors")->type->dims; dims.size() != 1)
      fail(ErrorKind::kShape, "vector " + std::to_string(i) + " has shape " + to_string(dims) +
                                  "; each must have one dimension");
  std::vector<Tensor> grids = meshgrid(vectors);
  if (grids.size() == 1)
    return grids[0];
  for (Tensor &grid : grids)
    grid = grid.reshape({-1});
  return stack(grids, 1);
}

Tensor block_diag(const std::vector<Tensor> &blocks, Location location) {
  Session session("block_diag", location);
  if (blocks.empty())
    fail(ErrorKind::kValue, "blocks is empty; give at least one tensor");
  std::vector<TensorArg> args;
  std::vector<Tensor> matrices;
  int64_t columns = 0;
  for (const Tensor &block : blocks) {
    const TypeInfo &type = *checked(block, "blocks")->type;
    if (type.ndim() > 2)
      fail(ErrorKind::kShape, "block " + std::to_string(matrices.size()) + " has shape " +
                                  to_string(type.dims) +
                                  "; each must be a matrix, a vector (a row) or a number");
    args.push_back(block);
    matrices.push_back(type.ndim() == 2 ? block : block.reshape({1, -1}));
    columns += matrices.back().shape()[1];
  }
  DType dtype = result_type(args);
  std::vector<Tensor> rows;
  int64_t before = 0;
  for (const Tensor &matrix : matrices) {
    int64_t height = matrix.shape()[0], width = matrix.shape()[1];
    rows.push_back(cat({zeros({height, before}, dtype), matrix.to(dtype),
                        zeros({height, columns - before - width}, dtype)},
                       1));
    before += width;
  }
  return cat(rows, 0);
}

Tensor diff(const Tensor &x, int64_t n, int64_t dim, Location location) {
  Session session("diff", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (n < 0)
    fail(ErrorKind::kValue, "n is " + std::to_string(n) + "; it must not be negative");
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Tensor result = x;
  for (int64_t size = type.dims[axis]; n > 0; --n) {
    if (size == 0)
      break;
    --size;
    Tensor after = result.narrow(axis, 1, size), before = result.narrow(axis, 0, size);
    result = type.dtype == boolean ? after != before : after - before;
  }
  return of_its_own(result, x);
}

Tensor trace(const Tensor &x, Location location) {
  Session session("trace", location);
  if (const TypeInfo &type = *checked(x, "x")->type; type.ndim() != 2)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + "; it must be a matrix");
  return diagonal(x).sum();
}

Tensor scatter(const Tensor &x, int64_t dim, const Tensor &indices, TensorArg source,
               Location location) {
  Session session("scatter", location);
  const TypeInfo &type = *checked(x, "x")->type, &at = *checked(indices, "indices")->type;
  if (at.ndim() != type.ndim())
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ", indices have shape " +
                                to_string(at.dims) + ": both must have as many dimensions");
  if (type.ndim() == 0) { // as vectors of one element
    normalize_dim_or_scalar(dim, 0, "dim");
    return scatter(x.reshape({1}), 0, indices.reshape({1}), source).reshape({});
  }
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  for (int64_t d = 0; d < type.ndim(); ++d)
    if (d != axis && at.dims[d] > type.dims[d])
      fail(ErrorKind::kShape, "indices have shape " + to_string(at.dims) +
                                  ", which reaches beyond x, of shape " + to_string(type.dims) +
                                  ", in dimension " + std::to_string(d));
  Var values;
  if (source.tensor()) {
    want_one_dtype(type, "x", *checked(*source.tensor(), "source")->type, "source");
    values = leading_part(read(*source.tensor(), "source"), at.dims);
    if (broadcast_shape(values.dims(), at.dims, "source", "indices") != at.dims)
      fail(ErrorKind::kShape, "source is " + describe(values) +
                                  ", which does not fit into the indices' shape, " +
                                  to_string(at.dims));
  } else {
    values = make_fitting_scalar(source.scalar(), type.dtype);
  }
  return wrap(emit_scatter(read(x, "x"), index_operand(indices), broadcast(values, at.dims), axis));
}

namespace {

// x with the slices of source written, or added, at the indices along dim.
Tensor put_slices(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                  bool accumulate) {
  const TypeInfo &type = *checked(x, "x")->type, &at = *checked(indices, "indices")->type;
  if (type.ndim() == 0 || at.ndim() != 1)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ", indices have shape " +
                                to_string(at.dims) + ": x must have dimensions, and indices one");
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Shape expected = type.dims;
  expected[axis] = at.dims[0];
  const TypeInfo &from = *checked(source, "source")->type;
  want_one_dtype(type, "x", from, "source");
  if (from.dims != expected)
    fail(ErrorKind::kShape, "source has shape " + to_string(from.dims) + "; with x of shape " +
                                to_string(type.dims) + " and " + std::to_string(at.dims[0]) +
                                " indices along dimension " + std::to_string(axis) +
                                " it must be " + to_string(expected));
  auto *put = accumulate ? emit_index_add : emit_index_put;
  return wrap(put(read(x, "x"), index_operand(indices), read(source, "source"), axis, ""));
}

} // namespace

Tensor index_fill(const Tensor &x, int64_t dim, const Tensor &indices, Scalar value,
                  Location location) {
  Session session("index_fill", location);
  const TypeInfo &type = *checked(x, "x")->type, &at = *checked(indices, "indices")->type;
  if (at.ndim() == 0)
    return index_fill(x, dim, indices.reshape({1}), value);
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Shape shape = type.dims;
  if (at.ndim() == 1)
    shape[axis] = at.dims[0];
  return put_slices(x, axis, indices,
                    wrap(broadcast(make_fitting_scalar(value, type.dtype), shape)),
                    /*accumulate=*/false);
}

Tensor index_add(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                 Location location) {
  Session session("index_add", location);
  if (checked(x, "x")->type->dtype == DType::kBool &&
      checked(source, "source")->type->dtype == DType::kBool)
    return put_slices(x.to(int64), dim, indices, source.to(int64), /*accumulate=*/true) != 0;
  return put_slices(x, dim, indices, source, /*accumulate=*/true);
}

Tensor index_copy(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                  Location location) {
  Session session("index_copy", location);
  return put_slices(x, dim, indices, source, /*accumulate=*/false);
}

} // namespace weft
