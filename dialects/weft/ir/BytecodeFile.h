// Bytecode files with a checksum. MLIR's reader does not stand up to damaged bytes, so that a file
// is checked before it sees them.
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace mlir {
class Operation;
}

namespace weft::ir {

// The module as bytecode, which any reader of MLIR's takes: the checksum is part of the producer's
// name, a text that stands in front of all sections. Empty if the module cannot be written.
std::string writeBytecode(mlir::Operation *module);

enum class BytecodeState {
  None,    // text, or anything else
  Foreign, // no file of writeBytecode(): nothing can be said of it
  Intact,
  Damaged
};
BytecodeState inspectBytecode(llvm::StringRef bytes);

// What to say of a damaged file.
inline constexpr const char *kDamagedBytecode =
    "is damaged: its checksum is not that of its bytes; copy or save the program again";

} // namespace weft::ir
