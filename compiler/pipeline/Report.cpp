#include "compiler/pipeline/Report.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

std::string locationText(mlir::Operation *op) {
  std::string text;
  op->getLoc()->walk([&](mlir::Location loc) {
    auto line = mlir::dyn_cast<mlir::FileLineColLoc>(loc);
    if (!line)
      return mlir::WalkResult::advance();
    text = (line.getFilename().getValue() + ":" + llvm::Twine(line.getLine())).str();
    return mlir::WalkResult::interrupt();
  });
  return text;
}

void RefusalCollector::add(llvm::StringRef reason, mlir::Operation *op,
                           llvm::StringRef explanation) {
  Entry &entry = entries_[reason.str()];
  if (entry.count++ > 0)
    return;
  entry.explanation = explanation.str();
  entry.example = op->getName().getStringRef().str();
  if (std::string where = locationText(op); !where.empty())
    entry.example += " at " + where;
}

int64_t RefusalCollector::count(llvm::StringRef reason) const {
  auto it = entries_.find(reason.str());
  return it == entries_.end() ? 0 : it->second.count;
}

std::vector<std::string> RefusalCollector::lines() const {
  std::vector<std::string> lines;
  for (const auto &[reason, entry] : entries_)
    lines.push_back(phase_ + ": refused " + std::to_string(entry.count) + " x " + reason + ": " +
                    entry.explanation + " (first: " + entry.example + ")");
  return lines;
}

void RefusalCollector::flush(CompileReport *report, bool print) const {
  if (!report && !print)
    return;
  for (std::string &line : lines()) {
    if (print)
      llvm::errs() << "// " << line << "\n";
    if (report)
      report->remarks.push_back(std::move(line));
  }
}

} // namespace weft::compiler
