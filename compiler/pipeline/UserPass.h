// One pass of a user on the module: run, checked, and named where it goes wrong.
#pragma once

#include <string>
#include <vector>

#include "compiler/pipeline/PassHooks.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// kind: "pass", for messages. A pass on an op inside of the module (func.func) runs on each of
// them. A failure has diagnostics, the last of which names the pass: it made nothing, failed,
// emitted an error, left IR that does not verify, or changed what the rest counts on: functions of
// the module, whose names and types stay. What it says as a warning or a remark is appended to
// `remarks`; null: shown as the context shows diagnostics.
mlir::LogicalResult runUserPass(mlir::ModuleOp module, llvm::StringRef kind, llvm::StringRef name,
                                const PassFactory &factory, std::vector<std::string> *remarks);

} // namespace weft::compiler
