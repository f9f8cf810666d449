// Records an op of whose operands this rank has parts: what compiler/shard makes of it the first
// time, repeated from then on.
#include <deque>
#include <functional>

#include "frontend/recorder/exchange.h"
#include "frontend/recorder/limits.h"
#include "frontend/recorder/state_api.h"
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

// The ops that are built, in order.
class Listener : public mlir::OpBuilder::Listener {
public:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    ops.push_back(op);
  }
  SmallVector<mlir::Operation *> ops;
};

// What `build` builds on values of the parts' types, as steps. It gives the results, in parts.
using Build = std::function<SmallVector<ShardedValue, 2>(Sharder &, ArrayRef<mlir::Value> parts)>;
std::shared_ptr<const Partition> partition_by(const std::shared_ptr<const MeshState> &mesh,
                                              ArrayRef<const TypeInfo *> types, uint8_t device,
                                              const Build &build) {
  IrState &ir = *recorder().ir;
  StandIns parts(ir);
  llvm::DenseMap<mlir::Value, uint32_t> numbers;
  SmallVector<const TypeInfo *, 8> made; // by number
  for (const TypeInfo *type : types) {
    made.push_back(type->part ? type->part.get() : type);
    numbers[parts.add(made.back())] = static_cast<uint32_t>(made.size()) - 1;
  }
  mlir::Block block;
  Listener built;
  mlir::OpBuilder builder(&ir.context(), &built);
  builder.setInsertionPointToEnd(&block);
  Sharder sharder(builder, mesh->axes);
  SmallVector<ShardedValue, 2> results = build(sharder, parts.values());

  auto partition = std::make_shared<Partition>();
  for (mlir::Operation *op : built.ops) {
    Derivative::Step &step = partition->steps.emplace_back();
    SmallVector<const TypeInfo *, 4> given;
    for (mlir::Value operand : op->getOperands()) {
      step.operands.push_back(numbers.find(operand)->second);
      given.push_back(made[step.operands.back()]);
    }
    step.signature = ir.intern(op, given, device);
    ++step.signature->refs;
    if (step.signature->exchange != Exchange::kNone && !host_reads(device))
      fail(ErrorKind::kDevice, "ranks exchange parts of what is on " + device_text(device) +
                                   ", whose memory the host does not read; move it with to(device)");
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      numbers[result] = static_cast<uint32_t>(made.size());
      made.push_back(step.signature->results[i]);
    }
  }
  for (const ShardedValue &result : results) {
    uint32_t number = numbers.find(result.part)->second;
    Shape whole = made[number]->dims;
    for (auto [size, axis] : llvm::zip_equal(whole, result.axes))
      size *= axis == compiler::kWhole ? 1 : mesh->axes[axis].ranks;
    partition->results.emplace_back(number, cut_type(*type_info(made[number]->dtype, whole, device),
                                                     sharding_of(mesh, result.axes)));
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
  auto build = [&](Sharder &sharder, ArrayRef<mlir::Value> parts) {
    StandIns wholes(ir);
    for (auto [type, part] : llvm::zip_equal(s.operands, parts))
      sharder.give(wholes.add(type), {part, axes_of(*type)});
    SmallVector<mlir::Type, 2> results;
    for (const TypeInfo *type : s.results)
      results.push_back(ir.type(type));
    mlir::Block block;
    mlir::OpBuilder builder(&ir.context());
    builder.setInsertionPointToEnd(&block);
    mlir::Operation *op =
        mlir::Operation::create(mlir::UnknownLoc::get(&ir.context()), s.name, results,
                                wholes.values(), mlir::NamedAttrList(), s.opaque());
    builder.insert(op);
    // Holds the results where the op is decomposed.
    auto end = mlir::UnrealizedConversionCastOp::create(builder, op->getLoc(), mlir::TypeRange(),
                                                        op->getResults());
    if (mlir::failed(sharder.run(block)))
      fail(ErrorKind::kValue, s.name.getStringRef().str() +
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
  auto build = [&](Sharder &sharder, ArrayRef<mlir::Value> parts) {
    mlir::Location loc = mlir::UnknownLoc::get(&recorder().ir->context());
    mlir::Value part = sharder.reshard(loc, {parts[0], axes_of(from)}, axes_of(to));
    return SmallVector<ShardedValue, 2>{{part, axes_of(to)}};
  };
  return partition_by(sharding.mesh, &from, from.device, build);
}

// The same elements in the same memory: a reshape that changes no shape makes another value of it.
std::shared_ptr<const Partition> renamed(const TypeInfo &from, const Sharding &sharding,
                                         const Axes &to) {
  auto build = [&](Sharder &sharder, ArrayRef<mlir::Value> parts) {
    mlir::Location loc = mlir::UnknownLoc::get(&recorder().ir->context());
    mlir::Value same = ir::ReshapeOp::create(sharder.builder(), loc, parts[0].getType(), parts[0]);
    return SmallVector<ShardedValue, 2>{{same, to}};
  };
  return partition_by(sharding.mesh, &from, from.device, build);
}

// A function that is recorded as a whole holds no exchange between ranks.
void note_exchange(SourceLine *line) {
  if (Trace *trace = current_trace(); trace && trace->exchange.empty())
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
      values.push_back(&made.emplace_back(Var{ValueRef(result), GradRef(), 0}));
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
  auto has_history = [](const Var *x) {
    return static_cast<bool>(x->grad);
  };
  if (!grad_mode() || !signature->differentiable || llvm::none_of(operands, has_history))
    return;
  SmallVector<Value *, 2> values;
  for (const Var &result : llvm::drop_begin(results, first))
    values.push_back(result.value.get());
  GradRef history = make_history(signature, line, operands, values);
  for (size_t i = first; i < results.size(); ++i)
    if (is_floating(results[i].dtype())) {
      results[i].grad = history;
      results[i].grad_index = static_cast<uint32_t>(i - first);
    }
}

// The ways from one type to another. kScatter: and a reduction's number.
enum Way { kReshard, kRename, kScatter };

// x as a value of the type, by the steps that `make` gives once.
static Var turned(const Var &x, const TypeInfo *type, int way,
                  llvm::function_ref<std::shared_ptr<const Partition>()> make) {
  IrState::Reshardings &known = recorder().ir->reshardings();
  IrState::Resharding key(x.value->type, type, way);
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() >= kLimits.reshardings)
      recorder().ir->drop_reshardings();
    std::shared_ptr<const Partition> made = make();
    found = known.try_emplace(key, std::move(made)).first;
  }
  std::shared_ptr<const Partition> partition = found->second;
  SmallVector<Var, 1> made;
  const Var *operand = &x;
  record_steps(*partition, operand, Session::line(), made);
  return std::move(made[0]);
}

// A way from x to the type that exchanges less, by how x was recorded:
//   - It was cut out of a value of that type, which is still there.
//   - It is a reduction over ranks that nobody else reads, of which each rank wants its part.
static std::optional<Var> shortcut(const Var &x, const TypeInfo &to) {
  const Node *node = x.value->node;
  if (!node || !node->is_open())
    return std::nullopt;
  if (is<ir::SliceOp>(node) && node->operands[0]->type == &to)
    return Var{ValueRef(node->operands[0]), GradRef(), 0};
  if (!is<ir::AllReduceOp>(node) || x.type().part)
    return std::nullopt;
  const auto &properties = *node->signature->opaque().as<const ir::AllReduceOp::Properties *>();
  const MeshState &mesh = *to.sharding->mesh;
  auto own = llvm::find_if(mesh.axes, [&](const compiler::MeshAxis &axis) {
    return axis.group == properties.group.getValue();
  });
  auto axis = static_cast<int32_t>(own - mesh.axes.begin());
  auto dim = llvm::find(to.sharding->axes, axis);
  constexpr uint32_t kOwn = 2; // the caller's handle, and that of what is to be exchanged
  if (own == mesh.axes.end() || dim == to.sharding->axes.end() || x.value->uses > 0 ||
      x.value->handles > kOwn || !forget_pending(x.value.get()))
    return std::nullopt;
  Var partial{ValueRef(node->operands[0]), GradRef(), 0};
  ir::Reduction reduction = properties.reduction.getValue();
  return turned(partial, &to, kScatter + static_cast<int>(reduction), [&] {
    Axes axes(to.dims.size(), compiler::kWhole);
    auto at = dim - to.sharding->axes.begin();
    axes[at] = axis;
    auto build = [&](Sharder &sharder, ArrayRef<mlir::Value> parts) {
      mlir::Location loc = mlir::UnknownLoc::get(&recorder().ir->context());
      mlir::Value part = sharder.scatter(loc, parts[0], reduction, at, axis);
      part = sharder.reshard(loc, {part, axes}, to.sharding->axes);
      return SmallVector<ShardedValue, 2>{{part, to.sharding->axes}};
    };
    return partition_by(to.sharding->mesh, partial.value->type.get(), to.device, build);
  });
}

Var resharded(const Var &x, const TypeInfo *type) {
  TypeRef from = x.value->type, to = type;
  if (from == type || (!from->part && !type->part))
    return x;
  if (from->part && type->part && from->sharding->mesh != type->sharding->mesh)
    return resharded(resharded(x, type_info(from->dtype, from->dims, from->device)), type);
  if (std::optional<Var> known = shortcut(x, *type))
    return Var{std::move(known->value), x.grad, x.grad_index};
  Var made = turned(x, type, kReshard, [&] { return make_resharding(*from, *type); });
  // What is cut otherwise has the same history.
  return Var{std::move(made.value), x.grad, x.grad_index};
}

Var part_of(const Var &x) {
  TypeRef type = x.value->type;
  if (!type->part)
    return x.without_history();
  return turned(x, type->part, kRename, [&] {
    return renamed(*type, *type->sharding, Axes(type->dims.size(), compiler::kWhole));
  });
}

Var of_part(const Var &part, std::shared_ptr<const Sharding> sharding) {
  TypeRef from = part.value->type;
  Shape whole = from->dims;
  for (auto [size, axis] : llvm::zip_equal(whole, sharding->axes))
    size *= axis == compiler::kWhole ? 1 : sharding->mesh->axes[axis].ranks;
  TypeRef type = cut_type(*type_info(from->dtype, whole, from->device), sharding);
  return turned(part, type, kRename, [&] { return renamed(*from, *sharding, sharding->axes); });
}

} // namespace weft::recorder
