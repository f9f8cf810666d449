#include "compiler/link/KernelDump.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

void KernelDump::write(llvm::StringRef stage, llvm::StringRef text) const {
  std::string file = name_ + (stage.empty() ? "" : "." + stage.str());
  if (stage != "ll" && stage != assembly_)
    file += ".mlir";
  llvm::SmallString<128> path(folder_);
  llvm::sys::path::append(path, "kernels");
  std::error_code error = llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, file);
  if (!error) {
    llvm::raw_fd_ostream stream(path, error);
    if (!error)
      stream << text;
  }
  if (error)
    llvm::errs() << "weft: cannot write " << path << ": " << error.message() << "\n";
}

void KernelDump::write(mlir::Operation *kernel) const {
  if (folder_.empty())
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream);
  write("", text);
}

DumpHook KernelDump::hook() const {
  if (folder_.empty())
    return nullptr;
  return [dump = *this](llvm::StringRef stage, llvm::StringRef text) { dump.write(stage, text); };
}

} // namespace weft::compiler
