#include "compiler/link/SplitKernels.h"

#include "compiler/fusion/FusionBuilder.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/KernelStructure.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {
namespace {

// Ops that a report names of one kernel: more say nothing new to its reader.
constexpr size_t kNamedOps = 8;

ir::FusionOp fusionOf(plan::KernelOp kernel) {
  return *kernel.getBody().front().getOps<ir::FusionOp>().begin();
}

// The ops of a block that are divided among kernels, in order. The others cost little, are read in
// the block only, and go along with each op that reads them: constants, and (unless that leaves
// nothing to divide) what fills or moves what is in memory anyway.
llvm::SmallVector<mlir::Operation *> dividedOps(mlir::Block &block) {
  mlir::Operation *terminator = block.getTerminator();
  auto divide = [&](bool movesFollow) {
    llvm::SmallVector<mlir::Operation *> divided;
    llvm::DenseSet<mlir::Operation *> following;
    for (mlir::Operation &op : block.without_terminator()) {
      auto weft = mlir::dyn_cast<ir::WeftOp>(op);
      bool moves = movesFollow && weft &&
                   (weft.kind() == ir::Kind::Creation || weft.kind() == ir::Kind::Movement);
      bool follows =
          (moves || mlir::isa<ir::ConstantOp>(op)) &&
          !llvm::is_contained(op.getUsers(), terminator) &&
          llvm::all_of(op.getOperands(), [&](mlir::Value operand) {
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
FusionGroup groupOf(mlir::Block &block, llvm::ArrayRef<mlir::Operation *> divided,
                    llvm::ArrayRef<mlir::Operation *> some) {
  llvm::DenseSet<mlir::Operation *> all(divided.begin(), divided.end()),
      mine(some.begin(), some.end()), needed;
  FusionGroup group;
  for (mlir::Operation &op : llvm::reverse(block.without_terminator())) {
    bool clone = !all.contains(&op);
    if (clone ? !needed.contains(&op) : !mine.contains(&op))
      continue;
    group.ops.push_back(&op);
    group.clone.push_back(clone);
    for (mlir::Value operand : op.getOperands())
      if (mlir::Operation *def = operand.getDefiningOp())
        needed.insert(def);
  }
  std::reverse(group.ops.begin(), group.ops.end());
  std::reverse(group.clone.begin(), group.clone.end());
  return group;
}

std::string nameOf(mlir::Operation *op) {
  std::string text = op->getName().getStringRef().str();
  std::string where = locationText(op);
  return where.empty() ? text : text + " (" + where + ")";
}

std::string namesOf(llvm::ArrayRef<mlir::Operation *> ops) {
  std::string text;
  for (mlir::Operation *op : ops.take_front(kNamedOps))
    text += (text.empty() ? "" : ", ") + nameOf(op);
  return ops.size() > kNamedOps ? text + " and " + std::to_string(ops.size() - kNamedOps) + " more"
                                : text;
}

// Turns the fusion in a kernel into two. The kernel is a function of fusions then, which its
// launches are to be replaced by.
void halve(plan::KernelOp kernel) {
  ir::FusionOp fusion = fusionOf(kernel);
  mlir::Block &body = fusion.getBody().front(), &block = kernel.getBody().front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), fusion->getOperands()))
    argument.replaceAllUsesWith(operand);
  mlir::Operation *yield = body.getTerminator();
  for (auto [result, value] : llvm::zip(fusion->getResults(), yield->getOperands()))
    result.replaceAllUsesWith(value);
  yield->erase();
  block.getOperations().splice(fusion->getIterator(), body.getOperations());
  fusion.erase();
  auto ops = dividedOps(block);
  size_t half = ops.size() / 2;
  FusionGroups groups{groupOf(block, ops, llvm::ArrayRef(ops).take_front(half)),
                      groupOf(block, ops, llvm::ArrayRef(ops).drop_front(half))};
  // The second half needs results of the first, never the other way round.
  llvm::LogicalResult built = buildFusions(block, groups);
  assert(mlir::succeeded(built));
  (void)built;
}

} // namespace

KernelSplitter::KernelSplitter(mlir::ModuleOp module)
    : module_(module), numbers_(llvm::count_if(module.getOps<plan::KernelOp>(),
                                               [](plan::KernelOp) { return true; })) {}

absl::Status KernelSplitter::split(llvm::ArrayRef<RefusedKernel> refused,
                                   llvm::SmallVectorImpl<plan::KernelOp> &kernels) {
  for (auto [kernel, why] : refused) {
    auto ops = dividedOps(fusionOf(kernel).getBody().front());
    bool hasBytes = llvm::all_of(ops, [](mlir::Operation *op) {
      return llvm::all_of(op->getResultTypes(), [](mlir::Type type) {
        return plan::byteSize(mlir::cast<mlir::RankedTensorType>(type)).has_value();
      });
    });
    if (ops.size() < 2 || !hasBytes)
      return absl::Status(why.code(), (ops.empty() ? "a kernel" : namesOf(ops)) +
                                          " cannot be compiled: " + std::string(why.message()));
  }
  llvm::DenseMap<mlir::Attribute, llvm::SmallVector<plan::LaunchOp, 1>> launches;
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

void KernelSplitter::replace(plan::KernelOp kernel, llvm::ArrayRef<plan::LaunchOp> launches,
                             Known &known, llvm::SmallVectorImpl<plan::KernelOp> &kernels) {
  halve(kernel);
  mlir::OpBuilder builder(kernel);
  mlir::Block &block = kernel.getBody().front();
  llvm::SmallVector<std::pair<ir::FusionOp, plan::KernelOp>> parts;
  for (auto fusion : block.getOps<ir::FusionOp>()) {
    plan::KernelOp &part = known[structureOf(fusion)];
    if (!part)
      kernels.push_back(part = createKernel(builder, fusion, numbers_++));
    parts.emplace_back(fusion, part);
  }
  mlir::OperandRange returned = block.getTerminator()->getOperands();
  for (plan::LaunchOp launch : launches) {
    builder.setInsertionPoint(launch);
    mlir::Location loc = launch.getLoc();
    llvm::DenseMap<mlir::Value, mlir::Value> buffers;
    for (auto [argument, buffer] : llvm::zip(block.getArguments(), launch.getInputs()))
      buffers[argument] = buffer;
    // What is returned twice, or was given, is written by no part where it is wanted.
    llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> copies;
    for (auto [value, buffer] : llvm::zip(returned, launch.getOutputs()))
      if (!buffers.try_emplace(value, buffer).second)
        copies.emplace_back(value, buffer);
    for (auto [fusion, part] : parts) {
      llvm::SmallVector<mlir::Value> inputs, outputs;
      for (mlir::Value operand : fusion->getOperands())
        inputs.push_back(buffers.lookup(operand));
      int64_t bytes = 0;
      for (mlir::Value result : fusion->getResults()) {
        mlir::Value &buffer = buffers[result];
        int64_t size = *plan::byteSize(mlir::cast<mlir::RankedTensorType>(result.getType()));
        if (!buffer)
          buffer = plan::bufferFor(launch, size);
        outputs.push_back(buffer);
        bytes += size;
      }
      // What only writes empty tensors writes nothing.
      if (bytes)
        plan::LaunchOp::create(builder, loc, part.getSymNameAttr(), inputs, outputs, mlir::Value(),
                               false);
    }
    for (auto [value, buffer] : copies)
      plan::CopyOp::create(builder, loc, buffers.lookup(value), buffer);
    launch.erase();
  }
  kernel.erase();
}

} // namespace weft::compiler
