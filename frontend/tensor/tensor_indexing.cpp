// Indexing by tensors, as one index_select or index_put: the other entries make a view first; the
// dims that tensors index are brought next to each other and made one, whose positions are computed
// from all tensors.
#include "frontend/tensor/tensor_indexing.h"

#include <algorithm>
#include <memory>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// Numbers that are written once each: memory that nobody clears before.
class Numbers {
public:
  explicit Numbers(int64_t count)
      : count_(count), first_(std::make_unique_for_overwrite<int64_t[]>(count)) {}
  int64_t *data() const {
    return first_.get();
  }
  int64_t size() const {
    return count_;
  }
  int64_t operator[](int64_t i) const {
    return first_[i];
  }
  void pop_back() {
    --count_;
  }
  Tensor tensor(const Shape &shape, Location location) const {
    return Tensor::from_bytes(data(), int64, shape, location);
  }

private:
  int64_t count_;
  std::unique_ptr<int64_t[]> first_;
};

// The positions where x is not 0, of all elements in order. Computes x now.
Numbers positions_of(const Var &x, Location location) {
  Var mask = x.dtype() == DType::kBool ? x : emit_cast(x, DType::kBool);
  Value *value = mask.value.get();
  submit({&value, 1}, {CutReason::kMask, location});
  std::vector<char> room;
  auto *bits = static_cast<const uint8_t *>(host_bytes(value, location, room));
  int64_t n = mask.type().elements, count = n - std::count(bits, bits + n, 0);
  // Each is written before it is known to be one: no branch, which random masks would mispredict.
  Numbers positions(count + 1);
  int64_t *next = positions.data();
  for (int64_t i = 0; i < n; ++i) {
    *next = i;
    next += bits[i] != 0;
  }
  positions.pop_back();
  return positions;
}

// Calls visit(number, place) with the places in the shape of such positions.
template <typename Visit>
void for_each_place(const Numbers &positions, const Shape &shape, Visit visit) {
  int64_t columns = shape.back(), end = columns; // of the row that `at` is in
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < positions.size(); ++i) {
    for (; positions[i] >= end; end += columns)
      for (size_t d = shape.size() - 1; d-- > 0;) {
        if (++at[d] < shape[d])
          break;
        at[d] = 0;
      }
    at.back() = positions[i] - (end - columns);
    visit(i, at);
  }
}

Var int64_leaf(const Numbers &values, Location location) {
  return read(values.tensor({values.size()}, location), "indices");
}

// x with the entries applied that are no tensors, and where the tensors' dims are in it.
struct Picked {
  struct Entry {
    size_t number; // of the index
    int64_t dim;   // of view, the first of those that it indexes
    Var var;       // int32 or int64 positions, or a bool mask
    // x has no such dim: a mask without dims picks from a new one of size 1, as NumPy's.
    bool is_new;
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
  for (size_t number = 0; number < indices.size(); ++number) {
    const Index &index = indices[number];
    if (index.kind() == Index::Kind::kInteger || index.kind() == Index::Kind::kSlice)
      ++consumed;
    if (index.kind() != Index::Kind::kTensor)
      continue;
    Var var = read(index.tensor(), "an index");
    if (var.dtype() != DType::kBool && var.dtype() != DType::kInt32 && var.dtype() != DType::kInt64)
      fail(ErrorKind::kDType, "an index is " + describe(var) + "; it must be int32, int64 or bool");
    if (var.device() != type.device && !goes_along(var.type()) && !goes_along(type))
      refuse_devices("self", read(x, "self"), var.dtype() == DType::kBool ? "a mask" : "an index",
                     var);
    bool is_new = var.dtype() == DType::kBool && var.ndim() == 0;
    picked.entries.push_back({number, 0, is_new ? emit_reshape(var, {1}) : var, is_new});
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

// A mask picks along its dims as along one: they become one.
void join_dims_of_masks(Picked &picked, Location location) {
  int64_t joined = 0;
  for (Picked::Entry &entry : picked.entries) {
    entry.dim -= joined;
    int64_t width = entry.width();
    if (width == 1)
      continue;
    picked.view = picked.view.flatten(entry.dim, entry.dim + width - 1, location);
    entry.var = emit_reshape(entry.var, {entry.var.type().elements});
    joined += width - 1;
  }
}

// The view's dims in another order, those that are indexed next to each other and made one; and the
// positions along that one.
struct Plan {
  Shape permutation; // empty: none
  Shape permuted;    // the dims after it
  int64_t dim = 0, width = 0;
  Var positions;
  std::string user; // what errors of the positions say (emit.h)

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

// Positions along a dim of the view.
struct Along {
  int64_t dim;
  Var positions;
  std::optional<size_t> index = {}; // the number of the index that has them, which may be wrong
};

Plan plan_of(const Picked &picked, Location location) {
  const Shape &shape = picked.view.shape();
  std::vector<Along> tensors;
  for (const Picked::Entry &entry : picked.entries) {
    if (entry.var.dtype() != DType::kBool) {
      tensors.push_back({entry.dim, entry.var, entry.number});
      continue;
    }
    tensors.push_back({entry.dim, int64_leaf(positions_of(entry.var, location), location)});
  }
  Plan plan;
  plan.width = static_cast<int64_t>(tensors.size());
  plan.permuted = shape;
  // A position without dims does not decide where the indexed dims stand: it takes its dim away, as
  // an integer does, and the others may be next to each other without it (as PyTorch has it).
  Shape taken, deciding;
  for (const Along &along : tensors) {
    taken.push_back(along.dim);
    if (along.positions.ndim() > 0)
      deciding.push_back(along.dim);
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
    plan.positions = tensors[0].positions; // index_select itself counts from the end and checks
    return plan;
  }
  Shape common = tensors[0].positions.dims();
  for (const Along &along : tensors)
    common = broadcast_shape(common, along.positions.dims(), "an index", "another index");
  auto number = [&](int64_t value) {
    return broadcast(emit_constant(value, DType::kInt64), common);
  };
  Var total;
  for (const Along &along : tensors) {
    int64_t extent = shape[along.dim];
    Var at = along.positions;
    if (along.index) {
      // Looked up among the positions of its own dim, which counts from the end and checks: one
      // that is outside of it must not become another element.
      std::string user =
          std::string("weft.") + Session::op() + ":indices[" + std::to_string(*along.index) + "]";
      at = emit_index_select(emit_iota(DType::kInt64, {extent}, 0), at, 0, user);
    }
    at = broadcast(rounded(std::move(at), DType::kInt64), common);
    total = total ? emit_add(emit_mul(total, number(extent)), at) : at;
  }
  plan.positions = std::move(total);
  // The bounds of the joined dim say nothing to the caller.
  plan.user = std::string("weft.") + Session::op() + ": an index lies outside its dimension";
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
  join_dims_of_masks(picked, location);
  Plan plan = plan_of(picked, location);
  Tensor result = wrap(
      emit_index_select(plan.join(read(picked.view, "self")), plan.positions, plan.dim, plan.user));
  result.impl()->picked = true;
  note_assignable(result);
  return result;
}

void put_by_tensors(const Tensor &x, std::span<const Index> indices, const TensorArg &value,
                    bool accumulate, Location location) {
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
  join_dims_of_masks(picked, location);
  Plan plan = plan_of(picked, location);
  base = read(picked.view, "self"); // now: while a mask was computed, others may have written
  Shape shape = plan.result();
  source = without_leading_ones(std::move(source), static_cast<int64_t>(shape.size()));
  if (broadcast_shape(source.dims(), shape, "value", "the indexed elements") != shape)
    fail(ErrorKind::kShape, "value is " + describe(source) +
                                ", which does not fit into the indexed elements, " +
                                to_string(shape));
  source = broadcast(source, shape);
  // Of bools a sum is whether one is true.
  bool counts = accumulate && base.dtype() == DType::kBool;
  if (counts)
    for (Var *each : {&base, &source})
      *each = emit_cast(*each, DType::kInt64);
  Var result = plan.separate((accumulate ? emit_index_add : emit_index_put)(
      plan.join(base), plan.positions, source, plan.dim, plan.user));
  write(picked.view, counts ? emit_cast(result, DType::kBool) : result);
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
  Var mask = read(x, "x");
  Numbers positions = positions_of(mask, location);
  int64_t rank = mask.ndim();
  if (rank == 1)
    return positions.tensor({positions.size(), 1}, location);
  Numbers places(positions.size() * rank);
  if (rank > 0)
    for_each_place(positions, mask.dims(), [&](int64_t i, const Shape &at) {
      for (int64_t d = 0; d < rank; ++d)
        places.data()[i * rank + d] = at[d];
    });
  return places.tensor({positions.size(), rank}, location);
}

std::vector<Tensor> where(const Tensor &condition, Location location) {
  Session session("where", location);
  Var mask = read(condition, "condition");
  Numbers positions = positions_of(mask, location);
  Shape shape = mask.ndim() == 0 ? Shape{1} : mask.dims();
  std::vector<Numbers> along;
  for (size_t d = 0; d < shape.size(); ++d)
    along.emplace_back(positions.size());
  for_each_place(positions, shape, [&](int64_t i, const Shape &at) {
    for (size_t d = 0; d < at.size(); ++d)
      along[d].data()[i] = at[d];
  });
  std::vector<Tensor> places;
  for (const Numbers &each : along)
    places.push_back(each.tensor({positions.size()}, location));
  return places;
}

Tensor masked_select(const Tensor &x, const Tensor &mask, Location location) {
  Session session("masked_select", location);
  const TypeInfo &type = *checked(x, "x")->type, &held = *checked(mask, "mask")->type;
  if (held.dtype != DType::kBool)
    fail(ErrorKind::kDType, "mask is " + describe(held) + "; it must be bool");
  Shape shape = broadcast_shape(type.dims, held.dims, "x", "mask");
  return x.expand(shape).index({mask.expand(shape)}, location);
}

} // namespace weft
