#include "tests/support/OpRows.h"

#include "llvm/Support/ErrorHandling.h"

namespace weft::tests {

const ir::OpRow *findRow(llvm::StringRef op) {
  op.consume_front("weft.");
  for (const ir::OpRow &row : ir::opTable())
    if (op == row.mnemonic)
      return &row;
  return nullptr;
}

const ir::OpRow &rowOf(llvm::StringRef op) {
  if (const ir::OpRow *row = findRow(op))
    return *row;
  llvm::report_fatal_error("the op table has no row for " + op);
}

} // namespace weft::tests
