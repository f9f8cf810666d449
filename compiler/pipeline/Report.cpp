#include "compiler/pipeline/Report.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

std::string locationText(Operation *op) {
  return locationText(op->getLoc());
}

std::string locationText(Location location) {
  std::string text;
  location->walk([&](Location loc) {
    auto line = dyn_cast<FileLineColLoc>(loc);
    if (!line)
      return WalkResult::advance();
    text = (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
    return WalkResult::interrupt();
  });
  return text;
}

SmallVector<Place> placesOf(Location location) {
  SmallVector<Place> places;
  auto add = [&](FileLineColLoc line, StringRef module) {
    Place place{(line.getFilename().getValue() + ":" + Twine(line.getLine())).str(), module.str()};
    if (!llvm::is_contained(places, place))
      places.push_back(std::move(place));
  };
  location->walk([&](Location inner) {
    if (auto line = dyn_cast<FileLineColLoc>(inner)) {
      add(line, "");
      return WalkResult::skip();
    }
    if (auto name = dyn_cast<NameLoc>(inner))
      if (auto line = dyn_cast<FileLineColLoc>(name.getChildLoc())) {
        add(line, name.getName());
        return WalkResult::skip();
      }
    return WalkResult::advance();
  });
  return places;
}

// A reason whose explanations have numbers in them would have a line for each op.
static constexpr size_t kMostExplanations = 4;

void RefusalCollector::add(StringRef reason, Operation *op, StringRef explanation) {
  Entry &entry = entries_[reason.str()];
  Told *told = &entry.first;
  if (entry.first.count > 0 && entry.explanation != explanation) {
    auto known = entry.further.find(explanation.str());
    if (known == entry.further.end() && entry.further.size() + 1 < kMostExplanations)
      known = entry.further.try_emplace(explanation.str()).first;
    ++entry.first.count;
    if (known == entry.further.end())
      return;
    told = &known->second;
  }
  if (told->count++ > 0)
    return;
  if (told == &entry.first)
    entry.explanation = explanation.str();
  told->example = op->getName().getStringRef().str();
  if (SmallVector<Place> places = placesOf(op->getLoc()); !places.empty())
    told->example += " at " + places.front().text();
}

int64_t RefusalCollector::count(StringRef reason) const {
  auto it = entries_.find(reason.str());
  return it == entries_.end() ? 0 : it->second.first.count;
}

std::vector<std::string> RefusalCollector::lines() const {
  std::vector<std::string> lines;
  for (const auto &[reason, entry] : entries_) {
    auto add = [&](const char *what, const Told &told, const std::string &explanation) {
      lines.push_back(phase_ + what + std::to_string(told.count) + " x " + reason + ": " +
                      explanation + " (first: " + told.example + ")");
    };
    add(": refused ", entry.first, entry.explanation);
    for (const auto &[explanation, told] : entry.further)
      add(": of these ", told, explanation);
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
