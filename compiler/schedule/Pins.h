// Schedules that users pin: choices of kernels, by the kernels' names.
//
// A line names kernels and says what holds for them; # begins a comment:
//
//   tanh_mul*: {vectors = 4}
//   *reduce_sum(64x5000xf32,*: {body = "rows_together", rows = 4}
//
// A kernel's name is what follows its number in dumps and explain, here with the types of its
// operands and results: "mul_reduce_sum(64x5000xf32, 5000xf32) -> 64xf32". A pattern is a glob (*,
// ?, [ab]) of the name alone or of all of it. docs/choices.md lists the choices. A pin that a
// kernel cannot have is not taken, and explain says why; it also names pins that a program has no
// kernel for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

struct SchedulePin {
  std::string kernels; // a glob
  std::string choices; // the text of a dictionary
};

// InvalidArgument for a line that is none; it names `origin` and the line's number.
absl::StatusOr<std::vector<SchedulePin>> parsePins(llvm::StringRef text, llvm::StringRef origin);
// NotFound for a file that cannot be read; else as above.
absl::StatusOr<std::string> readPins(const std::string &path);

// "mul_reduce_sum(64x5000xf32, 5000xf32) -> 64xf32"
std::string kernelText(ir::FusionOp fusion);
// The choices that a text names, "{vectors = 4 : i64}"; null for a text that is no dictionary. why:
// what MLIR's parser said, if anything.
mlir::DictionaryAttr choicesOf(llvm::StringRef text, mlir::MLIRContext *context,
                               std::string *why = nullptr);
// Adds to the fusion's weft.schedule what the pins have for it. matched: one a pin, set where it
// has something; null is allowed.
void pinChoices(ir::FusionOp fusion, llvm::ArrayRef<SchedulePin> pins,
                llvm::SmallVectorImpl<bool> *matched = nullptr);

// Pins for all compilations that begin after it, in this process, beside those of earlier calls;
// they enter the keys of caches. Nothing takes them back but clearRegisteredPasses() (PassHooks.h),
// which forgets every registered pass. InvalidArgument as parsePins. Any thread may call it.
absl::Status pinSchedules(llvm::StringRef text, llvm::StringRef origin = "pinSchedules");

} // namespace weft::compiler
