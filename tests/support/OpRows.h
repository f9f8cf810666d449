// Rows of the table of op records, by the op's name.
#pragma once

#include "dialects/weft/ir/OpTable.h"
#include "llvm/ADT/StringRef.h"

namespace weft::tests {

// The row of "weft.matmul"; null where the record says Untested<"why">.
const ir::OpRow *findRow(llvm::StringRef op);

// The row of an op that is known to have one, as those of opsWithCases() are.
const ir::OpRow &rowOf(llvm::StringRef op);

} // namespace weft::tests
