// weft-schedule: makes the kernel of each fusion, and writes on the fusion what its schedule chose.
// The code is thrown away: the pass is there to look at choices, and to pin them all.
#include "compiler/codegen/Choices.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/schedule/Passes.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/StringExtras.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_SCHEDULEPASS
#include "compiler/schedule/Passes.h.inc"

namespace {

class Schedule : public impl::SchedulePassBase<Schedule> {
public:
  using SchedulePassBase::SchedulePassBase;

  void runOnOperation() override {
    absl::StatusOr<TargetInfo> target = TargetInfo::host();
    if (!cpu.empty())
      target = TargetInfo::named(cpu);
    if (!target.ok()) {
      getOperation().emitError() << std::string(target.status().message());
      return signalPassFailure();
    }
    SmallVector<ir::FusionOp> fusions;
    getOperation().walk([&](ir::FusionOp fusion) { fusions.push_back(fusion); });
    for (ir::FusionOp fusion : fusions)
      if (failed(show(fusion, *target)))
        return signalPassFailure();
  }

private:
  LogicalResult show(ir::FusionOp fusion, const TargetInfo &target) {
    // Code generation changes a fusion whose sizes have names: it gets a copy.
    OpBuilder builder(fusion);
    auto copy = cast<ir::FusionOp>(builder.clone(*fusion));
    OwningOpRef<ModuleOp> code = ModuleOp::create(fusion.getLoc());
    FailureOr<KernelInfo> info = buildKernel(copy, "kernel", *code, target);
    copy.erase();
    if (failed(info))
      return failure();
    fusion->setAttr(kScheduleAttr, scheduleAttr(&getContext(), info->schedule));
    // At the place of the fusion: on the op, each would show all of the op.
    for (const std::string &why : info->refusedPins)
      mlir::emitWarning(fusion.getLoc()) << "schedule: " << why;
    if (alternatives)
      for (const ScheduleChoice &choice : info->schedule)
        mlir::emitRemark(fusion.getLoc()) << "schedule: " << choice.name << " = " << choice.value
                                          << " of " << llvm::join(choice.legal, ", ");
    return success();
  }
};

} // namespace
} // namespace weft::compiler
