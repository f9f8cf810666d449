// Basic indexing: integers, slices, an ellipsis and new axes become one slice step and one reshape
// step.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/tensor_indexing.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// numpy's rule: bounds are counted from the end where negative, then cut to the dimension. The
// limit is exclusive, -1 means "before the first element" for a negative step. A step that leaves
// the dimension at once is cut to its size, so that no product of steps overflows.
void resolve(const Slice &slice, int64_t size, int64_t &start, int64_t &limit, int64_t &step,
             int64_t &count) {
  if (slice.step == 0)
    fail(ErrorKind::kValue, "a slice's step must not be 0");
  int64_t most = std::max<int64_t>(size, 1);
  step = std::clamp(slice.step, -most, most);
  auto bound = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given)
      return otherwise;
    int64_t x = *given < 0 ? *given + size : *given;
    return step > 0 ? std::clamp<int64_t>(x, 0, size) : std::clamp<int64_t>(x, -1, size - 1);
  };
  start = bound(slice.start, step > 0 ? 0 : size - 1);
  limit = bound(slice.stop, step > 0 ? size : -1);
  int64_t span = step > 0 ? limit - start : start - limit;
  int64_t stride = step > 0 ? step : -step;
  count = span > 0 ? 1 + (span - 1) / stride : 0;
  if (count == 0) {
    start = limit = 0;
    step = 1;
  }
}

} // namespace

Tensor Tensor::index(std::span<const Index> indices, Location location) const {
  Session session("index", location);
  if (has_tensors(indices))
    return index_by_tensors(*this, indices, location);
  const TypeInfo &type = *checked(*this, "self")->type;
  int64_t consumed = 0, ellipses = 0;
  for (const Index &index : indices) {
    consumed += index.kind() == Index::Kind::kInteger || index.kind() == Index::Kind::kSlice;
    ellipses += index.kind() == Index::Kind::kEllipsis;
  }
  if (ellipses > 1)
    fail(ErrorKind::kIndex, "an index may hold one Ellipsis");
  if (consumed > type.ndim())
    fail(ErrorKind::kIndex, std::to_string(consumed) + " indices for a tensor of " +
                                std::to_string(type.ndim()) + " dimensions, " +
                                weft::to_string(type.dims));
  ViewStep step{ViewStep::Kind::kSlice, {}, {}, {}, {}, {}};
  for (Shape *each : {&step.starts, &step.limits, &step.steps, &step.dims})
    each->reserve(type.dims.size());
  Shape result;
  result.reserve(type.dims.size());
  bool cuts = false;
  int64_t dim = 0;
  auto take = [&](int64_t start, int64_t limit, int64_t stride, int64_t count) {
    cuts = cuts || count != type.dims[dim] || stride != 1;
    step.starts.push_back(start);
    step.limits.push_back(limit);
    step.steps.push_back(stride);
    step.dims.push_back(count);
    ++dim;
  };
  auto whole = [&] {
    result.push_back(type.dims[dim]);
    take(0, type.dims[dim], 1, type.dims[dim]);
  };
  for (const Index &index : indices) {
    switch (index.kind()) {
    case Index::Kind::kTensor:
      break; // index_by_tensors's
    case Index::Kind::kNewAxis:
      result.push_back(1);
      break;
    case Index::Kind::kEllipsis:
      for (int64_t n = type.ndim() - consumed; n > 0; --n)
        whole();
      break;
    case Index::Kind::kInteger: {
      int64_t i = index.integer(), size = type.dims[dim];
      if (i < -size || i >= size)
        fail(ErrorKind::kIndex, "index " + std::to_string(i) + " is out of range for dimension " +
                                    std::to_string(dim) + " of size " + std::to_string(size));
      if (i < 0)
        i += size;
      take(i, i + 1, 1, 1);
      break;
    }
    case Index::Kind::kSlice: {
      int64_t start, limit, stride, count;
      resolve(index.slice(), type.dims[dim], start, limit, stride, count);
      result.push_back(count);
      take(start, limit, stride, count);
      break;
    }
    }
  }
  while (dim < type.ndim())
    whole();
  ViewSteps steps;
  if (cuts)
    steps.push_back(std::move(step));
  // One step even where nothing is cut, so that history and identity are a view's.
  if (steps.empty() || steps.back().dims != result)
    steps.push_back({ViewStep::Kind::kReshape, std::move(result), {}, {}, {}, {}});
  return make_view(*this, std::move(steps));
}

Tensor Tensor::index(std::initializer_list<Index> indices, Location location) const {
  return index(std::span<const Index>(indices.begin(), indices.size()), location);
}

void Tensor::index_put_(std::initializer_list<Index> indices, TensorArg value, bool accumulate,
                        Location location) {
  Session session("index_put_", location);
  std::span<const Index> entries(indices.begin(), indices.size());
  if (has_tensors(entries))
    return put_by_tensors(*this, entries, value, accumulate, location);
  Tensor elements = index(entries, location);
  if (accumulate) {
    if (value.tensor())
      want_one_dtype(*elements.impl()->type, "self", *checked(*value.tensor(), "value")->type,
                     "value");
    Var added = value.tensor()
                    ? without_leading_ones(read(*value.tensor(), "value"), elements.ndim())
                    : make_fitting_scalar(value.scalar(), elements.dtype());
    elements.add_(wrap(added), location);
  } else {
    fill_with(elements, value, {"value", "the view of the index", /*drops_leading_ones=*/true});
  }
}

Tensor Tensor::operator[](At i) const {
  Session session("operator[]", i.location);
  const TypeInfo &type = *checked(*this, "x")->type;
  int64_t size = type.ndim() > 0 ? type.dims[0] : 0;
  if (i.index < -size || i.index >= size)
    throw Error(ErrorKind::kIndex,
                "x[" + std::to_string(i.index) + "]: " +
                    (type.ndim() == 0 ? std::string("x has no dimensions; item() reads its value")
                     : size == 0
                         ? "x has shape " + weft::to_string(type.dims) + ", which has no elements"
                         : "x has shape " + weft::to_string(type.dims) +
                               "; the index must be in [" + std::to_string(-size) + ", " +
                               std::to_string(size - 1) + "]"),
                Session::location());
  return select(0, i.index);
}

Tensor Tensor::select(int64_t dim, int64_t i, Location location) const {
  Session session("select", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  std::vector<Index> indices(normalize_dim(dim, type.ndim(), "dim"), Index(Slice()));
  indices.push_back(i);
  return index(indices, location);
}

Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> stop,
                     int64_t step, Location location) const {
  Session session("slice", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  std::vector<Index> indices(normalize_dim(dim, type.ndim(), "dim"), Index(Slice()));
  indices.push_back(Slice(start, stop, step));
  return index(indices, location);
}

Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length, Location location) const {
  Session session("narrow", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  int64_t size = type.dims[normalize_dim(dim, type.ndim(), "dim")];
  int64_t from = start < 0 ? start + size : start;
  if (from < 0 || length < 0 || from > size || length > size - from)
    fail(ErrorKind::kIndex, "start " + std::to_string(start) + " and length " +
                                std::to_string(length) + " do not lie within dimension " +
                                std::to_string(dim) + " of size " + std::to_string(size));
  return slice(dim, from, from + length, 1, location);
}

} // namespace weft
