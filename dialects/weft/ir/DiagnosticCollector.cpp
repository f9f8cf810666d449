#include "dialects/weft/ir/DiagnosticCollector.h"

#include "dialects/weft/ir/TypeAdvice.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

namespace weft::ir {

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext *context)
    : handler_(context, [this](mlir::Diagnostic &diagnostic) {
        // Warnings and remarks are no reason of a failure.
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
          return mlir::success();
        auto append = [this](mlir::Diagnostic &part) {
          // Of several lines that were fused, the first.
          part.getLocation()->walk([this](mlir::Location location) {
            auto file = mlir::dyn_cast<mlir::FileLineColLoc>(location);
            if (!file)
              return mlir::WalkResult::advance();
            text_ += file.getFilename().str();
            if (file.getLine() > 0) // a module has none
              text_ += ":" + std::to_string(file.getLine());
            text_ += ": ";
            return mlir::WalkResult::interrupt();
          });
          // Bytecode's error tells MLIR's own users what to call.
          text_ += llvm::StringRef(part.str()).split(". If this is intended, please call").first;
        };
        // What MLIR says after a rule that said why.
        if (!text_.empty() && diagnostic.str().ends_with("op failed to infer returned types"))
          return mlir::success();
        if (!text_.empty())
          text_ += "; ";
        append(diagnostic);
        for (mlir::Diagnostic &note : diagnostic.getNotes()) {
          // What MLIR says to its own users: the op that an error is about, in its IR, and where
          // its documents stand.
          std::string text = note.str();
          if (llvm::StringRef(text).starts_with("see current operation") ||
              llvm::StringRef(text).starts_with("Available dialects") ||
              llvm::StringRef(text).starts_with("in bytecode version"))
            continue;
          text_ += " (";
          append(note);
          text_ += ")";
        }
        for (const std::string &advice : {typeAdvice(diagnostic), dialectAdvice(diagnostic)})
          if (!advice.empty())
            text_ += " (" + advice + ")";
        return mlir::success();
      }) {}

std::string DiagnosticCollector::failure(llvm::StringRef what) const {
  return (what + (text_.empty() ? "" : ": ") + text_).str();
}

std::string DiagnosticCollector::added(std::string message) const {
  if (!text_.empty() && message.find(text_) == std::string::npos)
    message += " (" + text_ + ")";
  return message;
}

} // namespace weft::ir
