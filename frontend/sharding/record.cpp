// Records an op of whose operands this rank has parts: what compiler/shard makes of it the first
// time, repeated from then on.
#include <deque>
#include <functional>

#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/runs/exchange.h"
#include "frontend/sharding/sharding.h"

namespace weft::recorder {
namespace {

using compiler::Axes;
using compiler::ShardedValue;
using compiler::Sharder;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

Axes axes_of(const TypeInfo &type) {
  return type.sharding ? type.sharding->axes : Axes(type.dims.size(), compiler::kWhole);
}

// What `build` builds on values of the parts' types, as steps. It gives the results, in parts.
using Build = std::function<SmallVector<ShardedValue, 2>(Sharder &, mlir::ValueRange parts)>;
std::shared_ptr<const Partition> partition_by(const std::shared_ptr<const MeshState> &mesh,
                                              ArrayRef<const TypeInfo *> types, uint8_t device,
                                              const Build &build) {
  IrState &ir = *recorder().ir;
  mlir::Block block;
  NumberedValues values;
  for (const TypeInfo *type : types) {
    const TypeInfo *part = type->part ? type->part.get() : type;
    values.add(ir.stand_in(block, part), part);
  }
  mlir::OpBuilder builder(&ir.context());
  builder.setInsertionPointToEnd(&block);
  Sharder sharder(builder, mesh->axes);
  SmallVector<ShardedValue, 2> results = build(sharder, block.getArguments());
  // A result is a value of its own, since it gets a type of its own: where nothing is to be done, a
  // reshape that changes no shape makes one, in the same memory.
  for (ShardedValue &result : results)
    if (values.numbers.contains(result.part))
      result.part =
          ir::ReshapeOp::create(builder, result.part.getLoc(), result.part.getType(), result.part);

  auto partition = std::make_shared<Partition>();
  for (mlir::Operation &op : block) {
    const Derivative::Step &step = partition->steps.emplace_back(values.add(ir, &op, device));
    if (step.signature->exchange == Exchange::kCollective && !host_reads(device))
      fail(ErrorKind::kDevice,
           "ranks would exchange parts (" + op.getName().getStringRef().str() + ") of what is on " +
               device_text(device) +
               ", whose memory the host does not read; move it with to(device)");
  }
  for (const ShardedValue &result : results) {
    const TypeInfo *part = values.type(result.part);
    Shape whole = compiler::wholeSizes(part->dims, result.axes, mesh->axes);
    partition->results.emplace_back(
        values[result.part],
        cut_type(*type_info(part->dtype, whole, device), sharding_of(mesh, result.axes)));
  }
  return partition;
}

// The mesh of the operands that are cut.
std::shared_ptr<const MeshState> mesh_of(const Signature &s) {
  const TypeInfo *first = nullptr;
  for (const TypeInfo *type : s.operands) {
    if (!type->sharding)
      continue;
    if (first && first->sharding->mesh != type->sharding->mesh)
      fail(ErrorKind::kValue, "the operands of " + s.name.getStringRef().str() + ", " +
                                  describe(*first) + " and " + describe(*type) +
                                  ", are cut over two meshes; whole(x) makes one of them whole");
    first = type;
  }
  return first->sharding->mesh;
}

std::shared_ptr<const Partition> make_partition(Signature &s) {
  IrState &ir = *recorder().ir;
  (void)ir.take_diagnostic();
  auto build = [&](Sharder &sharder, mlir::ValueRange parts) {
    mlir::Block block;
    for (auto [type, part] : llvm::zip_equal(s.operands, parts))
      sharder.give(ir.stand_in(block, type), {part, axes_of(*type)});
    mlir::OpBuilder builder(&ir.context());
    builder.setInsertionPointToEnd(&block);
    mlir::Operation *op = ir.make_op(s, block.getArguments());
    builder.insert(op);
    // Holds the results where the op is decomposed.
    auto end = mlir::UnrealizedConversionCastOp::create(builder, op->getLoc(), mlir::TypeRange(),
                                                        op->getResults());
    if (mlir::failed(sharder.run(block)))
      fail(ErrorKind::kValue, s.name.getStringRef().str() + " of " + describe(*s.operands[0]) +
                                  " cannot be computed in parts: " + ir.take_diagnostic().message);
    SmallVector<ShardedValue, 2> made;
    for (mlir::Value result : end->getOperands())
      made.push_back(sharder.at(result));
    return made;
  };
  return partition_by(mesh_of(s), s.operands, s.device, build);
}

std::shared_ptr<const Partition> make_resharding(const TypeInfo &from, const TypeInfo &to) {
  const Sharding &sharding = from.sharding ? *from.sharding : *to.sharding;
  auto build = [&](Sharder &sharder, mlir::ValueRange parts) {
    mlir::Location loc = mlir::UnknownLoc::get(&recorder().ir->context());
    mlir::Value part = sharder.reshard(loc, {parts[0], axes_of(from)}, axes_of(to));
    return SmallVector<ShardedValue, 2>{{part, axes_of(to)}};
  };
  return partition_by(sharding.mesh, &from, from.device, build);
}

// The same elements in the same memory.
std::shared_ptr<const Partition> renamed(const TypeInfo &from, const Sharding &sharding,
                                         const Axes &to) {
  auto build = [&](Sharder &, mlir::ValueRange parts) {
    return SmallVector<ShardedValue, 2>{{parts[0], to}};
  };
  return partition_by(sharding.mesh, &from, from.device, build);
}

// A function that is recorded as a whole holds no exchange between ranks.
void note_exchange(SourceLine *line) {
  if (Trace *trace = thread_trace; trace && trace->exchange.empty())
    trace->exchange = line->place();
}

// Adds the results, without history.
void record_steps(const Partition &partition, ArrayRef<const Var *> operands, SourceLine *line,
                  SmallVectorImpl<Var> &results) {
  note_exchange(line);
  SmallVector<const Var *, 16> values(operands); // by number
  std::deque<Var> made;
  for (const Derivative::Step &step : partition.steps) {
    SmallVector<const Var *, 4> given;
    for (uint32_t number : step.operands)
      given.push_back(values[number]);
    Node *node = recorder().ir->enter(step.signature, given, line);
    for (Value *result : node->results)
      values.push_back(&made.emplace_back(Var{ValueRef(result)}));
  }
  for (const auto &[number, type] : partition.results) {
    Var result = *values[number];
    result.value->type = type;
    results.push_back(std::move(result));
  }
}

} // namespace

void record_parts(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line,
                  SmallVectorImpl<Var> &results) {
  if (!signature->partition)
    signature->partition = make_partition(*signature);
  std::shared_ptr<const Partition> partition = signature->partition;
  size_t first = results.size();
  record_steps(*partition, operands, line, results);
  SmallVector<Value *, 2> values;
  for (const Var &result : llvm::drop_begin(results, first))
    values.push_back(result.value.get());
  GradRef history = history_of(signature, line, operands, values);
  for (size_t i = first; i < results.size(); ++i)
    give_history(results[i], history, static_cast<uint32_t>(i - first));
}

// The ways from one type to another. kReduce: and the number of its reduction.
enum Way { kReshard, kRename, kReduce };

// x as a value of the type, by the steps that `make` gives once.
static Var turned(const Var &x, const TypeInfo *type, int way, int32_t axis,
                  llvm::function_ref<std::shared_ptr<const Partition>()> make) {
  IrState::Reshardings &known = recorder().ir->reshardings();
  IrState::Resharding key(x.value->type, type, way, axis);
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() >= kLimits.reshardings)
      known.clear();
    std::shared_ptr<const Partition> made = make();
    found = known.try_emplace(key, std::move(made)).first;
  }
  std::shared_ptr<const Partition> partition = found->second;
  SmallVector<Var, 1> made;
  const Var *operand = &x;
  record_steps(*partition, operand, Session::line(), made);
  return std::move(made[0]);
}

Var resharded(const Var &x, const TypeInfo *type) {
  TypeRef from = x.value->type, to = type;
  if (from == type || (!from->part && !type->part))
    return x;
  if (from->part && type->part && from->sharding->mesh != type->sharding->mesh)
    return resharded(resharded(x, type_info(from->dtype, from->dims, from->device)), type);
  Var made =
      turned(x, type, kReshard, compiler::kWhole, [&] { return make_resharding(*from, *type); });
  // What is cut otherwise has the same history.
  return Var{std::move(made.value), x.grad, x.grad_index};
}

// Whether it scatters depends on what this call has recorded, and not on what a rank has read
// meanwhile: the other ranks do the same.
Var resharded_gradient(const Var &gradient, const TypeInfo *type) {
  const auto *sum = type->part && !gradient.type().part ? unread_sum(gradient) : nullptr;
  if (!sum)
    return resharded(gradient, type);
  const Sharding &to = *type->sharding;
  auto own = llvm::find_if(to.mesh->axes, [&](const compiler::MeshAxis &axis) {
    return axis.group == sum->group.getValue();
  });
  auto axis = static_cast<int32_t>(own - to.mesh->axes.begin());
  auto dim = llvm::find(to.axes, axis) - to.axes.begin();
  if (own == to.mesh->axes.end())
    return resharded(gradient, type);
  ir::Reduction reduction = sum->reduction.getValue();
  Var partial = withdrawn(gradient);
  auto build = [&](Sharder &sharder, mlir::ValueRange parts) {
    mlir::Location loc = mlir::UnknownLoc::get(&recorder().ir->context());
    bool scatters = dim < static_cast<ptrdiff_t>(to.axes.size());
    Axes before = to.axes;
    if (scatters)
      before[dim] = compiler::kWhole;
    Axes whole(to.axes.size(), compiler::kWhole);
    mlir::Value part = sharder.reshard(loc, {parts[0], whole}, before);
    part = scatters ? sharder.scatter(loc, part, reduction, dim, axis)
                    : sharder.reduce(loc, part, reduction, axis);
    return SmallVector<ShardedValue, 2>{{part, to.axes}};
  };
  Var made = turned(partial, type, kReduce + static_cast<int>(reduction), axis, [&] {
    return partition_by(to.mesh, partial.value->type.get(), type->device, build);
  });
  return Var{std::move(made.value), gradient.grad, gradient.grad_index};
}

Var part_of(const Var &x) {
  TypeRef type = x.value->type;
  if (!type->part)
    return x.without_history();
  return turned(x, type->part, kRename, compiler::kWhole, [&] {
    return renamed(*type, *type->sharding, Axes(type->dims.size(), compiler::kWhole));
  });
}

Var of_part(const Var &part, std::shared_ptr<const Sharding> sharding) {
  TypeRef from = part.value->type;
  Shape whole = compiler::wholeSizes(from->dims, sharding->axes, sharding->mesh->axes);
  TypeRef type = cut_type(*type_info(from->dtype, whole, from->device), sharding);
  return turned(part, type, kRename, compiler::kWhole,
                [&] { return renamed(*from, *sharding, sharding->axes); });
}

} // namespace weft::recorder
