// Opens a plugin's file.
#pragma once

#include <string>

#include "llvm/Support/DynamicLibrary.h"

namespace weft::compiler {

// The library of this file, open until the process ends; an invalid one, and why, where it cannot
// be loaded. A symbol that it lacks is such a reason: it would else end the process at its first
// call. No other library finds its symbols: two plugins may each have a class of one name. (Its
// TypeIDs do not need that: those of classes that it shares with others are in Weft and MLIR.)
llvm::sys::DynamicLibrary openLibrary(const std::string &file, std::string &why);

} // namespace weft::compiler
