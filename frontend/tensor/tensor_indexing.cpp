// Indexing by tensors, as one index_select or index_put: the other entries make a view first; the
// dims that tensors index are brought next to each other and made one, whose positions are computed
// from all tensors.
#include "frontend/tensor/tensor_indexing.h"

#include <algorithm>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// The positions where x is not 0. Computes x now.
struct Positions {
  std::vector<std::vector<int64_t>> along; // one vector a dim
  int64_t count = 0;
};
Positions positions_of(const Var &x, Location location) {
  Var mask = x.dtype() == DType::kBool ? x : emit_cast(x, DType::kBool);
  Value *value = mask.value.get();
  submit({&value, 1}, {CutReason::kMask, location});
  std::vector<char> room;
  auto *bits = static_cast<const uint8_t *>(host_bytes(value, location, room));
  const Shape &shape = mask.dims();
  Positions found;
  found.along.resize(shape.size());
  Shape at(shape.size(), 0);
  for (int64_t i = 0, n = mask.type().elements; i < n; ++i) {
    found.count += bits[i] != 0;
    if (bits[i])
      for (size_t d = 0; d < shape.size(); ++d)
        found.along[d].push_back(at[d]);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
  return found;
}

Var int64_leaf(const std::vector<int64_t> &values, Location location) {
  return read(Tensor::from(values, {static_cast<int64_t>(values.size())}, location), "indices");
}

// x with the entries applied that are no tensors, and where the tensors' dims are in it.
struct Picked {
  struct Entry {
    int64_t dim; // of view, the first of those that it indexes
    Var var;     // int32 or int64 positions, or a bool mask
    bool is_new; // x has no such dim: a mask without dims picks from a new one of size 1, as NumPy's
    int64_t width() const {
      return var.dtype() == DType::kBool ? var.ndim() : 1;
    }
  };
  Tensor view;
  std::vector<Entry> entries;
};

Picked pick(const Tensor &x, std::span<const Index> indices, Location location) {
  const TypeInfo &type = *checked(x, "self")->type;
  Picked picked;
  std::vector<Index> others;
  int64_t consumed = 0, dim = 0;
  for (const Index &index : indices) {
    if (index.kind() == Index::Kind::kInteger || index.kind() == Index::Kind::kSlice)
      ++consumed;
    if (index.kind() != Index::Kind::kTensor)
      continue;
    Var var = read(index.tensor(), "an index");
    if (var.dtype() != DType::kBool && var.dtype() != DType::kInt32 && var.dtype() != DType::kInt64)
      fail(ErrorKind::kDType, "an index is " + describe(var) + "; it must be int32, int64 or bool");
    bool is_new = var.dtype() == DType::kBool && var.ndim() == 0;
    picked.entries.push_back({0, is_new ? emit_reshape(var, {1}) : var, is_new});
    consumed += is_new ? 0 : picked.entries.back().width();
  }
  if (consumed > type.ndim())
    fail(ErrorKind::kIndex, "the indices take " + std::to_string(consumed) +
                                " dimensions of a tensor that has " + std::to_string(type.ndim()) +
                                ", " + to_string(type.dims));
  size_t next = 0;
  for (const Index &index : indices) {
    switch (index.kind()) {
    case Index::Kind::kTensor: {
      Picked::Entry &entry = picked.entries[next++];
      entry.dim = dim;
      // Whole, for now.
      others.insert(others.end(), entry.width(), entry.is_new ? Index(None) : Index(Slice()));
      dim += entry.width();
      break;
    }
    case Index::Kind::kEllipsis:
      dim += type.ndim() - consumed;
      others.push_back(index);
      break;
    case Index::Kind::kInteger:
      others.push_back(index);
      break;
    default:
      ++dim;
      others.push_back(index);
    }
  }
  picked.view = x.index(std::span<const Index>(others), location);
  for (const Picked::Entry &entry : picked.entries) {
    if (entry.var.dtype() != DType::kBool)
      continue;
    const Shape &shape = picked.view.shape();
    if (!std::equal(entry.var.dims().begin(), entry.var.dims().end(), shape.begin() + entry.dim))
      fail(ErrorKind::kIndex, "a mask has shape " + to_string(entry.var.dims()) +
                                  ", which is not that of the dimensions from " +
                                  std::to_string(entry.dim) + " on of shape " + to_string(shape));
  }
  return picked;
}

// The view's dims in another order, those that are indexed next to each other and made one; and the
// positions along that one.
struct Plan {
  Shape permutation; // empty: none
  Shape permuted;    // the dims after it
  int64_t dim = 0, width = 0;
  Var positions;

  Shape joined() const {
    Shape shape = permuted;
    int64_t size = 1;
    for (int64_t i = 0; i < width; ++i)
      size *= shape[dim + i];
    shape.erase(shape.begin() + dim, shape.begin() + dim + width);
    shape.insert(shape.begin() + dim, size);
    return shape;
  }
  Var join(Var x) const {
    if (!permutation.empty())
      x = emit_transpose(x, permutation);
    return width == 1 ? x : emit_reshape(x, joined());
  }
  Var separate(Var x) const {
    if (width != 1)
      x = emit_reshape(x, permuted);
    if (permutation.empty())
      return x;
    Shape inverse(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i)
      inverse[permutation[i]] = static_cast<int64_t>(i);
    return emit_transpose(x, inverse);
  }
  // Of what is read or written.
  Shape result() const {
    Shape shape = joined();
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, positions.dims().begin(), positions.dims().end());
    return shape;
  }
};

Plan plan_of(const Picked &picked, Location location) {
  const Shape &shape = picked.view.shape();
  std::vector<std::pair<int64_t, Var>> tensors; // dim, positions along it
  for (const Picked::Entry &entry : picked.entries) {
    if (entry.var.dtype() != DType::kBool) {
      tensors.emplace_back(entry.dim, entry.var);
      continue;
    }
    int64_t dim = entry.dim;
    Positions found = positions_of(entry.var, location);
    for (const auto &positions : found.along)
      tensors.emplace_back(dim++, int64_leaf(positions, location));
  }
  Plan plan;
  plan.width = static_cast<int64_t>(tensors.size());
  plan.permuted = shape;
  // A position without dims does not decide where the indexed dims stand: it takes its dim away, as
  // an integer does, and the others may be next to each other without it (as PyTorch has it).
  Shape taken, deciding;
  for (const auto &[dim, var] : tensors) {
    taken.push_back(dim);
    if (var.ndim() > 0)
      deciding.push_back(dim);
  }
  if (deciding.empty())
    deciding = taken;
  auto is_taken = [&](int64_t dim) {
    return std::find(taken.begin(), taken.end(), dim) != taken.end();
  };
  bool adjacent = true;
  for (int64_t d = deciding.front(); d < deciding.back(); ++d)
    adjacent = adjacent && is_taken(d);
  Shape before, after;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (!is_taken(d))
      (adjacent && d < deciding.front() ? before : after).push_back(d);
  plan.dim = static_cast<int64_t>(before.size());
  Shape order = std::move(before);
  order.insert(order.end(), taken.begin(), taken.end());
  order.insert(order.end(), after.begin(), after.end());
  if (!std::is_sorted(order.begin(), order.end())) {
    for (size_t i = 0; i < shape.size(); ++i)
      plan.permuted[i] = shape[order[i]];
    plan.permutation = std::move(order);
  }
  if (tensors.size() == 1) {
    plan.positions = tensors[0].second; // index_select itself counts from the end and checks
    return plan;
  }
  Shape common = tensors[0].second.dims();
  for (const auto &[dim, var] : tensors)
    common = broadcast_shape(common, var.dims(), "an index", "another index");
  auto number = [&](int64_t value) {
    return broadcast(emit_constant(value, DType::kInt64), common);
  };
  Var total, outside;
  int64_t size = 1;
  for (const auto &[dim, given] : tensors) {
    int64_t extent = shape[dim];
    Var at = given.dtype() == DType::kInt64 ? given : emit_cast(given, DType::kInt64);
    at = broadcast(at, common);
    at = emit_select(emit_compare(Comparison::kLt, at, number(0)),
                     emit_binary(Binary::kAdd, at, number(extent)), at);
    Var bad = emit_binary(Binary::kOr, emit_compare(Comparison::kLt, at, number(0)),
                          emit_compare(Comparison::kGe, at, number(extent)));
    outside = outside ? emit_binary(Binary::kOr, outside, bad) : bad;
    total = total ? emit_binary(Binary::kAdd, emit_binary(Binary::kMul, total, number(extent)), at)
                  : at;
    size *= extent;
  }
  // One that is outside of its own dim must not become another element: it is outside of all.
  plan.positions = emit_select(outside, number(size), total);
  return plan;
}

} // namespace

namespace recorder {

bool has_tensors(std::span<const Index> indices) {
  return std::any_of(indices.begin(), indices.end(),
                     [](const Index &index) { return index.kind() == Index::Kind::kTensor; });
}

Tensor index_by_tensors(const Tensor &x, std::span<const Index> indices, Location location) {
  Picked picked = pick(x, indices, location);
  Plan plan = plan_of(picked, location);
  Tensor result =
      wrap(emit_index_select(plan.join(read(picked.view, "self")), plan.positions, plan.dim));
  result.impl()->picked = true;
  note_assignable(result);
  return result;
}

void put_by_tensors(const Tensor &x, std::span<const Index> indices, const TensorArg &value,
                    bool accumulate, Location location) {
  if (accumulate && checked(x, "self")->type->dtype == DType::kBool)
    fail(ErrorKind::kDType,
         "self is bool, which does not add up; use logical_or, or convert it with to() first");
  Picked picked = pick(x, indices, location);
  Var base = read(picked.view, "self");
  bool one_value = !value.tensor() || checked(*value.tensor(), "value")->type->elements == 1,
       fills = one_value && !accumulate && picked.entries.size() == 1 &&
               picked.entries[0].var.dtype() == DType::kBool;
  // One value for a mask is converted, as masked_fill does; values in places of their own are not.
  if (value.tensor() && !fills)
    want_one_dtype(base.type(), "self", *checked(*value.tensor(), "value")->type, "value");
  Var source = value.tensor() ? operand(value, base.dtype(), "value")
                              : make_fitting_scalar(value.scalar(), base.dtype());
  if (fills) {
    // One value wherever a mask holds: a selection, whatever the number of places.
    const Picked::Entry &entry = picked.entries[0];
    Shape raised(base.ndim(), 1);
    std::copy(entry.var.dims().begin(), entry.var.dims().end(), raised.begin() + entry.dim);
    Var mask = broadcast(emit_reshape(entry.var, raised), base.dims());
    write(picked.view, emit_select(mask, broadcast(emit_reshape(source, {}), base.dims()), base));
    return;
  }
  Plan plan = plan_of(picked, location);
  Shape shape = plan.result();
  source = without_leading_ones(std::move(source), static_cast<int64_t>(shape.size()));
  if (broadcast_shape(source.dims(), shape, "value", "the indexed elements") != shape)
    fail(ErrorKind::kShape, "value is " + describe(source) +
                                ", which does not fit into the indexed elements, " +
                                to_string(shape));
  write(picked.view,
        plan.separate(emit_index_write(plan.join(base), plan.positions, broadcast(source, shape),
                                       plan.dim, accumulate)));
}

} // namespace recorder

Tensor index_put(const Tensor &x, std::initializer_list<Index> indices, TensorArg value,
                 bool accumulate, Location location) {
  Session session("index_put", location);
  Tensor result = x.clone(location);
  result.index_put_(indices, value, accumulate, location);
  return result;
}

Tensor nonzero(const Tensor &x, Location location) {
  Session session("nonzero", location);
  Positions found = positions_of(read(x, "x"), location);
  std::vector<int64_t> flat;
  for (int64_t i = 0; i < found.count; ++i)
    for (const auto &positions : found.along)
      flat.push_back(positions[i]);
  return Tensor::from(flat, {found.count, static_cast<int64_t>(found.along.size())}, location);
}

} // namespace weft
