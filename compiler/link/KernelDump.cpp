#include "compiler/link/KernelDump.h"

#include "compiler/pipeline/Dump.h"
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
  // Where there is no folder, no file can be written, which writeDump says.
  (void)llvm::sys::fs::create_directories(path);
  llvm::sys::path::append(path, file);
  writeDump(path, [&](llvm::raw_ostream &stream) { stream << text; });
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
