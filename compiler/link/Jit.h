// Machine code in this process: objects, linked by ORC's JITLink.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

namespace llvm::orc {
class JITDylib;
} // namespace llvm::orc

namespace weft::compiler {

// The code of one program. It goes when this does. Thread-safe once made.
class JitCode {
public:
  ~JitCode();
  JitCode(const JitCode &) = delete;
  JitCode &operator=(const JitCode &) = delete;

  // Links relocatable ELF objects for this machine and looks `symbols` up in them. The code may
  // call memcpy, memmove and memset and nothing else: any other undefined symbol (libm's functions
  // above all) is an Internal error that names it.
  static absl::StatusOr<std::shared_ptr<JitCode>>
  link(llvm::ArrayRef<std::shared_ptr<const std::string>> objects,
       llvm::ArrayRef<std::string> symbols);

  // The address of one of the symbols, or null.
  void *lookup(llvm::StringRef symbol) const {
    return addresses_.lookup(symbol);
  }

private:
  JitCode() = default;
  llvm::orc::JITDylib *dylib_ = nullptr;
  llvm::StringMap<void *> addresses_;
};

} // namespace weft::compiler
