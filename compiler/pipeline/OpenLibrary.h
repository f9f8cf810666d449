// Opens a plugin's file.
#pragma once

#include <string>

#include "llvm/Support/DynamicLibrary.h"

namespace weft::compiler {

// The library of this file, open until the process ends; an invalid one, and why, where it cannot
// be loaded. A symbol that it lacks is such a reason: it would else end the process at its first
// call.
llvm::sys::DynamicLibrary openLibrary(const std::string &file, std::string &why);

} // namespace weft::compiler
