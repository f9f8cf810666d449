#include "compiler/link/SplitKernels.h"

#include "compiler/fusion/FusionBuilder.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/KernelStructure.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// Ops that a report names of one kernel: more say nothing new to its reader.
constexpr size_t kNamedOps = 8;

ir::FusionOp fusionOf(plan::KernelOp kernel) {
  return *kernel.getBody().front().getOps<ir::FusionOp>().begin();
}

// The ops of a block that are divided among kernels, in order. The others cost little, are read in
// the block only, and go along with each op that reads them: constants, and (unless that leaves
// nothing to divide) what fills or moves what is in memory anyway.
SmallVector<Operation *> dividedOps(Block &block) {
  Operation *terminator = block.getTerminator();
  auto divide = [&](bool movesFollow) {
    SmallVector<Operation *> divided;
    DenseSet<Operation *> following;
    for (Operation &op : block.without_terminator()) {
      auto weft = dyn_cast<ir::WeftOp>(op);
      bool moves = movesFollow && weft &&
                   (weft.kind() == ir::Kind::Creation || weft.kind() == ir::Kind::Movement);
      bool follows =
          (moves || isa<ir::ConstantOp>(op)) && !llvm::is_contained(op.getUsers(), terminator) &&
          llvm::all_of(op.getOperands(), [&](Value operand) {
            return !operand.getDefiningOp() || following.contains(operand.getDefiningOp());
          });
      if (follows)
        following.insert(&op);
      else
        divided.push_back(&op);
    }
    return divided;
  };
  auto divided = divide(true);
  return divided.size() > 1 ? divided : divide(false);
}

// Some of the divided ops of a block, with what goes along with them.
FusionGroup groupOf(Block &block, ArrayRef<Operation *> divided, ArrayRef<Operation *> some) {
  DenseSet<Operation *> all(divided.begin(), divided.end()), mine(some.begin(), some.end()), needed;
  FusionGroup group;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool clone = !all.contains(&op);
    if (clone ? !needed.contains(&op) : !mine.contains(&op))
      continue;
    group.ops.push_back(&op);
    group.clone.push_back(clone);
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        needed.insert(def);
  }
  std::reverse(group.ops.begin(), group.ops.end());
  std::reverse(group.clone.begin(), group.clone.end());
  return group;
}

std::string nameOf(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  std::string where = locationText(op);
  return where.empty() ? text : text + " (" + where + ")";
}

std::string namesOf(ArrayRef<Operation *> ops) {
  std::string text;
  for (Operation *op : ops.take_front(kNamedOps))
    text += (text.empty() ? "" : ", ") + nameOf(op);
  return ops.size() > kNamedOps ? text + " and " + std::to_string(ops.size() - kNamedOps) + " more"
                                : text;
}

// Turns the fusion in a kernel into two. The kernel is a function of fusions then, which its
// launches are to be replaced by.
void halve(plan::KernelOp kernel) {
  ir::FusionOp fusion = fusionOf(kernel);
  Block &body = fusion.getBody().front(), &block = kernel.getBody().front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), fusion->getOperands()))
    argument.replaceAllUsesWith(operand);
  Operation *yield = body.getTerminator();
  for (auto [result, value] : llvm::zip(fusion->getResults(), yield->getOperands()))
    result.replaceAllUsesWith(value);
  yield->erase();
  block.getOperations().splice(fusion->getIterator(), body.getOperations());
  fusion.erase();
  auto ops = dividedOps(block);
  size_t half = ops.size() / 2;
  FusionGroups groups{groupOf(block, ops, ArrayRef(ops).take_front(half)),
                      groupOf(block, ops, ArrayRef(ops).drop_front(half))};
  // The second half needs results of the first, never the other way round.
  llvm::LogicalResult built = buildFusions(block, groups);
  assert(succeeded(built));
  (void)built;
}

} // namespace

KernelSplitter::KernelSplitter(ModuleOp module)
    : module_(module), numbers_(llvm::count_if(module.getOps<plan::KernelOp>(),
                                               [](plan::KernelOp) { return true; })) {}

absl::Status KernelSplitter::split(ArrayRef<RefusedKernel> refused,
                                   SmallVectorImpl<plan::KernelOp> &kernels) {
  for (auto [kernel, why] : refused) {
    auto ops = dividedOps(fusionOf(kernel).getBody().front());
    bool hasBytes = llvm::all_of(ops, [](Operation *op) {
      return llvm::all_of(op->getResultTypes(), [](Type type) {
        return plan::byteSize(cast<RankedTensorType>(type)).has_value();
      });
    });
    if (ops.size() < 2 || !hasBytes)
      return absl::Status(why.code(), (ops.empty() ? "a kernel" : namesOf(ops)) +
                                          " cannot be compiled: " + std::string(why.message()));
  }
  DenseMap<Attribute, SmallVector<plan::LaunchOp, 1>> launches;
  for (auto [kernel, why] : refused) {
    launches[kernel.getSymNameAttr()];
    // What fusing made; its parts say nothing new.
    ir::FusionOp fusion = fusionOf(kernel);
    if (!again_)
      refusals_.add("does-not-compile", fusion,
                    "the kernel of " + namesOf(dividedOps(fusion.getBody().front())) +
                        " becomes several: " + std::string(why.message()));
  }
  Known known;
  for (auto kernel : module_.getOps<plan::KernelOp>())
    if (!launches.contains(kernel.getSymNameAttr()))
      known.try_emplace(structureOf(fusionOf(kernel)), kernel);
  findProgram(module_).walk([&](plan::LaunchOp launch) {
    if (auto found = launches.find(launch.getKernelAttr().getAttr()); found != launches.end())
      found->second.push_back(launch);
  });
  for (auto [kernel, why] : refused)
    replace(kernel, launches[kernel.getSymNameAttr()], known, kernels);
  again_ = true;
  return absl::OkStatus();
}

void KernelSplitter::replace(plan::KernelOp kernel, ArrayRef<plan::LaunchOp> launches, Known &known,
                             SmallVectorImpl<plan::KernelOp> &kernels) {
  halve(kernel);
  OpBuilder builder(kernel);
  Block &block = kernel.getBody().front();
  SmallVector<std::pair<ir::FusionOp, plan::KernelOp>> parts;
  for (auto fusion : block.getOps<ir::FusionOp>()) {
    plan::KernelOp &part = known[structureOf(fusion)];
    if (!part)
      kernels.push_back(part = createKernel(builder, fusion, numbers_++));
    parts.emplace_back(fusion, part);
  }
  OperandRange returned = block.getTerminator()->getOperands();
  for (plan::LaunchOp launch : launches) {
    builder.setInsertionPoint(launch);
    Location loc = launch.getLoc();
    DenseMap<Value, Value> buffers;
    for (auto [argument, buffer] : llvm::zip(block.getArguments(), launch.getInputs()))
      buffers[argument] = buffer;
    // What is returned twice, or was given, is written by no part where it is wanted.
    SmallVector<std::pair<Value, Value>> copies;
    for (auto [value, buffer] : llvm::zip(returned, launch.getOutputs()))
      if (!buffers.try_emplace(value, buffer).second)
        copies.emplace_back(value, buffer);
    for (auto [fusion, part] : parts) {
      SmallVector<Value> inputs, outputs;
      for (Value operand : fusion->getOperands())
        inputs.push_back(buffers.lookup(operand));
      int64_t bytes = 0;
      for (Value result : fusion->getResults()) {
        Value &buffer = buffers[result];
        int64_t size = *plan::byteSize(ir::typeOf(result));
        if (!buffer)
          buffer = plan::bufferFor(launch, size);
        outputs.push_back(buffer);
        bytes += size;
      }
      // What only writes empty tensors writes nothing.
      if (bytes)
        plan::LaunchOp::create(builder, loc, part.getSymNameAttr(), inputs, outputs, Value(),
                               false);
    }
    for (auto [value, buffer] : copies)
      plan::CopyOp::create(builder, loc, buffers.lookup(value), buffer);
    launch.erase();
  }
  kernel.erase();
}

} // namespace weft::compiler
