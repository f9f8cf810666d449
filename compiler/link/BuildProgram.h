// plan.program -> the runtime's Program.
#pragma once

#include "absl/status/statusor.h"
#include "compiler/backend/CompileReport.h"
#include "dialects/plan/ir/Plan.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::compiler {

// The program must be packed, its kernels must carry what codegen says of them. InvalidArgument,
// with the op, where that is not so. `prepare` computes the program's arguments with plan.prepared;
// null where it has none. Where tensors have named dims the program is that of the largest sizes,
// and `sizes`, which must not be null then, gets what smaller ones change.
absl::StatusOr<runtime::Program> buildProgram(plan::ProgramOp program, llvm::StringRef target,
                                              const PlanReport &report,
                                              plan::ProgramOp prepare = nullptr,
                                              runtime::SizeTable *sizes = nullptr);

// The call as the runtime has it, but that its operands name no buffers. InvalidArgument, with the
// op, for a config that the runtime has no form for.
absl::StatusOr<runtime::LibraryCall> libraryCall(plan::LibraryCallOp op);

// The program with inputs turned into constants: bytes of inputs[i].first become the value of that
// input, which is an input no longer. The numbers of the other inputs move up. InvalidArgument for
// a size that does not fit, or an input that the program writes.
absl::StatusOr<runtime::Program>
bindConstants(const runtime::Program &program,
              llvm::ArrayRef<std::pair<int32_t, llvm::ArrayRef<char>>> inputs);

} // namespace weft::compiler
