// The schedule of a kernel as data: what code generation chooses beside what the kernel computes.
//
// Each choice has a name, a value, and the values that it could have. No choice changes a bit of a
// result: lanes, and the order in which sums are added, are no choices. A choice is made where the
// code that obeys it is emitted: whoever emits it says what the costs prefer and what is legal.
//
// A weft.fusion pins choices by its attribute weft.schedule; the others stay the compiler's:
//
//   weft.fusion(...) attributes {weft.schedule = {body = "rows_together", rows = 4 : i64}} { ... }
//
// A pinned value that the kernel cannot have is not taken, and KernelInfo says why.
#pragma once

#include <map>

#include "compiler/codegen/Kernel.h"
#include "dialects/weft/ir/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

using ir::kScheduleAttr;
// Of a plan.kernel: all that was chosen.
inline constexpr const char *kChosenAttr = "plan.schedule";

// A choice that schedules may have.
struct ChoiceName {
  llvm::StringRef name, meaning;
};
// All of them.
llvm::ArrayRef<ChoiceName> choiceNames();

class Choices {
public:
  Choices() = default;
  // With what the attribute of the op pins; of another attribute than a dictionary, nothing.
  explicit Choices(mlir::Operation *fusion);

  // The pinned value if it is legal, else `preferred`, which is. Asked again it answers the same.
  int64_t number(llvm::StringRef name, int64_t preferred, llvm::ArrayRef<int64_t> legal);
  std::string word(llvm::StringRef name, llvm::StringRef preferred,
                   llvm::ArrayRef<llvm::StringRef> legal);

  // Takes over a choice that another schedule of the kernel has shown.
  void keep(ScheduleChoice choice);

  // What was chosen, in the order of choosing, but for choices that have one value only.
  const std::vector<ScheduleChoice> &made() const {
    return made_;
  }
  // Why pinned values were not taken, a sentence each; complete when the kernel is scheduled.
  std::vector<std::string> refused() const;

private:
  std::string choose(llvm::StringRef name, const std::string &preferred,
                     std::vector<std::string> legal);

  std::map<std::string, std::string> pinned_;
  std::map<std::string, std::string> answers_; // all that was asked
  std::vector<ScheduleChoice> made_;
  std::vector<std::string> refused_;
};

// Adds choices to those that the op pins; of two with one name the new one holds.
void pin(mlir::Operation *fusion, mlir::DictionaryAttr choices);

// {body = "rows", vectors = 2 : i64}
mlir::DictionaryAttr scheduleAttr(mlir::MLIRContext *context,
                                  llvm::ArrayRef<ScheduleChoice> choices);

} // namespace weft::compiler
