// Names of the attributes of a program that keeps something between runs, as a training step does
// its parameters. Arguments with a state come behind the inputs of a run; the results that write
// something, behind its outputs.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace weft::ir {

// Of an argument of @main. A string: the name of what the program keeps.
inline constexpr llvm::StringLiteral kStateAttr = "weft.state";
// Beside it. Elements: what the first run finds.
inline constexpr llvm::StringLiteral kInitialAttr = "weft.initial";
// Of a result of @main. An integer: the number of the argument that the result is the new value of.
inline constexpr llvm::StringLiteral kWritesAttr = "weft.writes";

} // namespace weft::ir
