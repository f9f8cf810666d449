#include "compiler/pipeline/OpenLibrary.h"

#include <dlfcn.h>

namespace weft::compiler {

llvm::sys::DynamicLibrary openLibrary(const std::string &file, std::string &why) {
  // Not LLVM's getPermanentLibrary, which opens lazily and globally.
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *said = dlerror();
    why = said ? said : "unknown error";
    return llvm::sys::DynamicLibrary();
  }
  return llvm::sys::DynamicLibrary(handle);
}

} // namespace weft::compiler
