// Passes that show and pin the schedules of kernels.
#ifndef WEFT_COMPILER_SCHEDULE_PASSES
#define WEFT_COMPILER_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def SchedulePass : Pass<"weft-schedule", "::mlir::ModuleOp"> {
  let summary = "writes on each weft.fusion which schedule its kernel gets";
  let description = [{
    Each kernel is scheduled as a compilation would, and thrown away. What the fusion pins holds; a pinned value that the kernel cannot have is a
    warning. What comes out can be edited and read again: then it is what is pinned.

    ```mlir
    %0 = weft.fusion(%a = %x : tensor<64x5000xf32>, %b = %v : tensor<5000xf32>) -> tensor<64xf32> { ... }
    ```
    becomes
    ```mlir
    %0 = weft.fusion(%a = %x : tensor<64x5000xf32>, %b = %v : tensor<5000xf32>) -> tensor<64xf32>
        attributes {weft.schedule = {body = "rows_together", grain = 2 : i64, rows = 2 : i64, vectors = 2 : i64}} { ... }
    ```
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "", "the CPU to schedule for, as LLVM names it; empty for this machine">,
    Option<"alternatives", "alternatives", "bool", "false", "says at each fusion which values its choices could have">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::vector::VectorDialect"];
}

def PinSchedulesPass : Pass<"weft-pin-schedules", "::mlir::ModuleOp"> {
  let summary = "pins choices of the kernels that a file names";
  let description = [{
    A line of the file is a pattern of kernels, a colon and a dictionary of choices (compiler/schedule/Pins.h). Of several lines that name one
    choice of a kernel the last one counts.

    ```
    tanh_mul*: {vectors = 4}
    ```
    ```mlir
    %0 = weft.fusion(...) -> tensor<64xf32> attributes {weft.schedule = {vectors = 4 : i64}} { ... }
    ```
  }];
  let options = [Option<"file", "file", "std::string", "", "the file">];
}

def TunePass : Pass<"weft-tune", "::mlir::ModuleOp"> {
  let summary = "measures other schedules of each weft.fusion, and pins what is faster";
  let description = [{
    One choice after the other gets each value that it may have; a kernel that is faster by more than the noise takes its place. Kernels run on
    one thread, on numbers of no meaning, those first that do most. The choice "grain" is left alone: one thread does not see it. Each candidate
    must give the bits of the kernel that it was tried against.

    ```mlir
    %0 = weft.fusion(...) -> tensor<64xf32> { ... }
    ```
    becomes, where four rows together are faster here than the two that the costs prefer,
    ```mlir
    %0 = weft.fusion(...) -> tensor<64xf32> attributes {weft.schedule = {rows = 4 : i64}} { ... }
    ```
  }];
  let options = [
    Option<"seconds", "seconds", "double", "60", "the time that measuring may take">,
    Option<"pins", "pins", "std::string", "", "a file that gets what was pinned, for WEFT_SCHEDULES and weft-pin-schedules">,
  ];
  let dependentDialects = ["::weft::plan::PlanDialect"];
}

#endif
