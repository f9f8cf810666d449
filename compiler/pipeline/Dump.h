// Files of IR for people to read.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

// The folder for the next compilation of this process that dumps into `base`: base itself for the
// first one, base/002, base/003, ... for those that follow. Created; empty, with a warning on
// stderr, where that fails.
std::string claimDumpFolder(llvm::StringRef base);

// Writes a file of what `print` prints. A failure, a full disk among them, is a warning, of each
// reason one in a process: a dump never fails a compilation.
void writeDump(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> print);

// Writes folder/NN-name.mlir with locations, complete enough to be read back, by writeDump.
void dumpModule(mlir::ModuleOp module, llvm::StringRef folder, int number, llvm::StringRef name);

} // namespace weft::compiler
