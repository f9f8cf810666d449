// Collects why passes left things alone: bounded, whatever the size of the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/backend/CompileReport.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir {
class Location;
class Operation;
} // namespace mlir

namespace weft::compiler {

// One a pass. A refusal has a short fixed name ("shared-with-reduction"). Of each name the first
// ones with different explanations are kept, up to four, with their op and place; all are counted.
class RefusalCollector {
public:
  explicit RefusalCollector(llvm::StringRef phase) : phase_(phase) {}

  void add(llvm::StringRef reason, mlir::Operation *op, llvm::StringRef explanation);
  int64_t count(llvm::StringRef reason) const;
  // One line a reason: "fuse: refused 3 x reason: explanation (first: weft.exp at model.cpp:12)".
  // One more for each further explanation of it: "fuse: of these 1 x reason: ...".
  std::vector<std::string> lines() const;
  // Appends the lines to the report's remarks; null is allowed. print: and to stderr, as comments.
  void flush(CompileReport *report, bool print = false) const;

private:
  struct Told {
    int64_t count = 0;
    std::string example;
  };
  struct Entry {
    Told first; // its count is of all
    std::string explanation;
    std::map<std::string, Told> further; // by another explanation
  };
  std::string phase_;
  std::map<std::string, Entry> entries_; // by reason
};

// "file:line" of an op's location, the innermost one that has a line; empty when it has none.
std::string locationText(mlir::Operation *op);
std::string locationText(mlir::Location location);

// A line, "train.cpp:12", and the path of the module that ran it, "blocks.0.up", or empty.
struct Place {
  std::string line, module;
  bool operator==(const Place &) const = default;
  // "train.cpp:12 (blocks.0.up)"
  std::string text() const {
    return module.empty() ? line : line + " (" + module + ")";
  }
};
// All distinct ones of a location that have a line: a kernel's is fused of those of its ops. A
// module is a name around a line.
llvm::SmallVector<Place> placesOf(mlir::Location location);

} // namespace weft::compiler
