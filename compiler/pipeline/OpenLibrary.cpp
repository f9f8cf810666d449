#include "compiler/pipeline/OpenLibrary.h"

#include <dlfcn.h>

namespace weft::compiler {

llvm::sys::DynamicLibrary openLibrary(const std::string &file, std::string &why) {
  // LLVM opens lazily. Its handle is then another one of what is open.
  if (!dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    const char *said = dlerror();
    why = said ? said : "unknown error";
    return llvm::sys::DynamicLibrary();
  }
  return llvm::sys::DynamicLibrary::getPermanentLibrary(file.c_str(), &why);
}

} // namespace weft::compiler
