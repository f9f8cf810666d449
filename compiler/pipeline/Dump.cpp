#include "compiler/pipeline/Dump.h"

#include <map>
#include <mutex>
#include <set>

#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

// Each reason once in a process: a disk that is full fails all files of all compilations.
static void warn(const llvm::Twine &what, std::error_code error) {
  static std::mutex mutex;
  static auto &told = *new std::set<std::string>;
  {
    std::lock_guard lock(mutex);
    if (!told.insert(error.message()).second)
      return;
  }
  llvm::errs() << "weft: " << what << ": " << error.message()
               << "; other files of dumps that fail so are not named\n";
}

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
    warn("cannot dump into " + folder, error);
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
    warn("cannot write " + path, error);
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
