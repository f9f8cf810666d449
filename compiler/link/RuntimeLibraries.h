// What ahead-of-time models link beside the runtime, by the entries that their programs call.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

struct RuntimeLibrary {
  llvm::StringLiteral entries; // what the names of its entries begin with
  llvm::StringLiteral finder;  // the C function in its archive that finds them
  llvm::StringLiteral archive; // in the runtime's folder
  llvm::StringLiteral flag;    // for the linker, of a library of the system; or nothing
};

inline constexpr RuntimeLibrary kRuntimeLibraries[] = {
    {"onednn.", "weft_onednn_find", "libweft_onednn.a", "-ldnnl"},
    {"weft.arg_sort", "weft_sort_find", "libweft_sort.a", ""},
    // Beside it, what defines weft_kernel_plugin (runtime/abi/weft_custom.h).
    {"weft.custom", "weft_custom_find", "libweft_custom.a", ""},
};

} // namespace weft::compiler
