// What programs compiled ahead of time are linked with, beside the runtime, to call a library.
#pragma once

#include <string>
#include <vector>

namespace weft::compiler {

// A program is linked with it where it calls one of its entries, and not otherwise.
struct RuntimeLibrary {
  std::string entries;            // what the names of its entries begin with: "onednn."
  std::string finder;             // the C function that finds them: a weft_library_finder of
                                  // runtime/aot/weft_model.h
  std::vector<std::string> files; // objects and archives that define it, in the order in which the
                                  // linker takes them; relative ones lie in the runtime's folder
  std::vector<std::string> flags; // for the linker, of libraries of the system: "-ldnnl"
};

} // namespace weft::compiler
