#include "compiler/pipeline/Report.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
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

llvm::SmallVector<Place> placesOf(mlir::Location location) {
  llvm::SmallVector<Place> places;
  auto add = [&](mlir::FileLineColLoc line, llvm::StringRef module) {
    Place place{(line.getFilename().getValue() + ":" + llvm::Twine(line.getLine())).str(),
                module.str()};
    if (!llvm::is_contained(places, place))
      places.push_back(std::move(place));
  };
  location->walk([&](mlir::Location inner) {
    if (auto line = mlir::dyn_cast<mlir::FileLineColLoc>(inner)) {
      add(line, "");
      return mlir::WalkResult::skip();
    }
    if (auto name = mlir::dyn_cast<mlir::NameLoc>(inner))
      if (auto line = mlir::dyn_cast<mlir::FileLineColLoc>(name.getChildLoc())) {
        add(line, name.getName());
        return mlir::WalkResult::skip();
      }
    return mlir::WalkResult::advance();
  });
  return places;
}

// A reason whose explanations have numbers in them would have a line for each op.
static constexpr size_t kMostExplanations = 4;

void RefusalCollector::add(llvm::StringRef reason, mlir::Operation *op,
                           llvm::StringRef explanation) {
  Entry *entry = &entries_[reason.str()];
  if (entry->count++ > 0) {
    if (entry->explanation == explanation)
      return;
    std::string further = reason.str() + '\0', key = further + explanation.str();
    auto known = entries_.find(key);
    if (known == entries_.end()) {
      size_t told = 1;
      for (auto it = entries_.lower_bound(further);
           it != entries_.end() && llvm::StringRef(it->first).starts_with(further); ++it)
        ++told;
      if (told == kMostExplanations)
        return;
      known = entries_.try_emplace(key).first;
    }
    entry = &known->second;
    if (entry->count++ > 0)
      return;
  }
  entry->explanation = explanation.str();
  entry->example = op->getName().getStringRef().str();
  if (llvm::SmallVector<Place> places = placesOf(op->getLoc()); !places.empty())
    entry->example += " at " + places.front().text();
}

int64_t RefusalCollector::count(llvm::StringRef reason) const {
  auto it = entries_.find(reason.str());
  return it == entries_.end() ? 0 : it->second.count;
}

std::vector<std::string> RefusalCollector::lines() const {
  std::vector<std::string> lines;
  for (const auto &[key, entry] : entries_) {
    size_t end = key.find('\0');
    lines.push_back(phase_ + (end == std::string::npos ? ": refused " : ": of these ") +
                    std::to_string(entry.count) + " x " + key.substr(0, end) + ": " +
                    entry.explanation + " (first: " + entry.example + ")");
  }
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
