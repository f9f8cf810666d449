#include "dialects/weft/ir/DiagnosticCollector.h"

#include "dialects/weft/ir/TypeAdvice.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

namespace weft::ir {

using namespace mlir;

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : handler_(context, [this](Diagnostic &diagnostic) {
        // Warnings and remarks are no reason of a failure.
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return success();
        auto append = [this](Diagnostic &part) {
          // Of several lines that were fused, the first.
          part.getLocation()->walk([this](Location location) {
            auto file = dyn_cast<FileLineColLoc>(location);
            if (!file)
              return WalkResult::advance();
            text_ += file.getFilename().str();
            if (file.getLine() > 0) // a module has none
              text_ += ":" + std::to_string(file.getLine());
            text_ += ": ";
            return WalkResult::interrupt();
          });
          // Bytecode's error tells MLIR's own users what to call.
          text_ += StringRef(part.str()).split(". If this is intended, please call").first;
        };
        // What MLIR says after a rule that said why.
        if (!text_.empty() && diagnostic.str().ends_with("op failed to infer returned types"))
          return success();
        if (!text_.empty())
          text_ += "; ";
        append(diagnostic);
        for (Diagnostic &note : diagnostic.getNotes()) {
          // What MLIR says to its own users: the op that an error is about, in its IR, and where
          // its documents stand.
          std::string text = note.str();
          if (StringRef(text).starts_with("see current operation") ||
              StringRef(text).starts_with("Available dialects") ||
              StringRef(text).starts_with("in bytecode version"))
            continue;
          text_ += " (";
          append(note);
          text_ += ")";
        }
        for (const std::string &advice : {typeAdvice(diagnostic), dialectAdvice(diagnostic)})
          if (!advice.empty())
            text_ += " (" + advice + ")";
        return success();
      }) {}

std::string DiagnosticCollector::failure(StringRef what) const {
  return (what + (text_.empty() ? "" : ": ") + text_).str();
}

std::string DiagnosticCollector::added(std::string message) const {
  if (!text_.empty() && message.find(text_) == std::string::npos)
    message += " (" + text_ + ")";
  return message;
}

} // namespace weft::ir
