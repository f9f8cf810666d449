#include "compiler/pipeline/Dump.h"

#include <map>
#include <mutex>

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

std::string claimDumpFolder(llvm::StringRef base) {
  static std::mutex mutex;
  static auto &counts = *new std::map<std::string, int>;
  int number;
  {
    std::lock_guard lock(mutex);
    number = ++counts[base.str()];
  }
  llvm::SmallString<128> folder(base);
  if (number > 1) {
    std::string name;
    llvm::raw_string_ostream(name) << llvm::format("%03d", number);
    llvm::sys::path::append(folder, name);
  }
  if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
    llvm::errs() << "weft: cannot dump into " << folder << ": " << error.message() << "\n";
    return "";
  }
  return folder.str().str();
}

void writeDump(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (!error) {
    print(stream);
    stream.close();
    error = stream.error();
    stream.clear_error(); // a stream that ends with an error ends the process
  }
  if (error)
    llvm::errs() << "weft: cannot write " << path << ": " << error.message() << "\n";
}

void dumpModule(mlir::ModuleOp module, llvm::StringRef folder, int number, llvm::StringRef name) {
  llvm::SmallString<128> path(folder);
  std::string file;
  llvm::raw_string_ostream(file) << llvm::format("%02d-", number) << name << ".mlir";
  llvm::sys::path::append(path, file);
  writeDump(path, [&](llvm::raw_ostream &stream) {
    module.print(
        stream,
        mlir::OpPrintingFlags().enableDebugInfo().useLocalScope(false).printNameLocAsPrefix());
  });
}

} // namespace weft::compiler
