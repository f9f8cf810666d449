// Names of discardable attributes, for those who set and those who read them. VerifyAttributes.cpp
// has the kinds of those that users write; one of another kind is an error of the verifier.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace weft::ir {

// Of an argument of a module's @main:
inline constexpr llvm::StringLiteral kNameAttr = "weft.name"; // string: what users call it
inline constexpr llvm::StringLiteral kDonatableAttr =
    "weft.donatable"; // unit: a result may take its buffer
inline constexpr llvm::StringLiteral kKeptAttr =
    "weft.kept"; // unit: written after all checks of indices only, if donated
inline constexpr llvm::StringLiteral kStableAttr =
    "weft.stable"; // unit: has not changed for some runs
inline constexpr llvm::StringLiteral kParameterAttr =
    "weft.parameter"; // string, also of a constant: the parameter that it is
// What compiler/prepare moved. Of @main's last arguments: the number of the result of @prepare; of
// @prepare's arguments: that of @main's.
inline constexpr llvm::StringLiteral kPreparedAttr = "weft.prepared";
inline constexpr llvm::StringLiteral kSourceAttr = "weft.source";

// Of a function: weft-differentiate gives it a derivative.
inline constexpr llvm::StringLiteral kDifferentiateAttr = "weft.differentiate";

// Of a module, a dictionary with the range of its size: {batch = [1, 64]} (SizeNames.h).
inline constexpr llvm::StringLiteral kSizesAttr = "weft.sizes";
// Of a weft.constant that is a scalar int64: the size of that name, whose largest number the
// constant has.
inline constexpr llvm::StringLiteral kSizeAttr = "weft.size";
// Of a weft.reduce_sum, unit: where the size that varies is 1, dims of that size go without a sum,
// which would give 0 for -0.
inline constexpr llvm::StringLiteral kBeyondOneAttr = "weft.beyond_one";

// Of a weft.fusion, a dictionary of integers and strings: the choices of its schedule that are
// pinned (compiler/codegen/Choices.h).
inline constexpr llvm::StringLiteral kScheduleAttr = "weft.schedule";

// Of ops on scalars in kernels, units; marked and unmarked ops agree but for rounding.
inline constexpr llvm::StringLiteral kNonPositiveAttr =
    "weft.nonpositive"; // math.exp: the argument is at most 0, or NaN
inline constexpr llvm::StringLiteral kGeluAttr =
    "weft.gelu"; // math.fma of x, Phi(x) and -0.0: the product is gelu(x)

} // namespace weft::ir
