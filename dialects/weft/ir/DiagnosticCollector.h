// MLIR's errors as text, for the errors and statuses that are made of them.
#pragma once

#include <string>

#include "mlir/IR/Diagnostics.h"

namespace weft::ir {

// Collects a context's errors while it lives, in place of MLIR's printing them: "file:line:
// message", one after another, separated by semicolons; notes and advice follow what they belong
// to, in parentheses. Works for one thread's use of a context.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context);

  const std::string &text() const {
    return text_;
  }
  // What failed, and why: "what: text", or just `what` where nothing was said.
  std::string failure(llvm::StringRef what) const;
  // A message that was made elsewhere, with the text in parentheses unless it has it already.
  std::string added(std::string message) const;

private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

} // namespace weft::ir
