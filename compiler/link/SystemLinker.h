// The machine's own linker, for libraries and executables.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/claim/RuntimeLibrary.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// The folder that holds libweft_aot.a: `given` where it is not empty, WEFT_RUNTIME_DIR, or the
// first of DIR/runtime/aot and DIR/lib/weft with DIR the folder of this program or one above it.
// NotFound says where it was looked for.
absl::StatusOr<std::string> findRuntimeFolder(const std::string &given);

// Makes an empty file for what a link reads or says. FailedPrecondition names the folder.
absl::Status temporaryFile(llvm::StringRef prefix, llvm::StringRef suffix,
                           llvm::SmallVectorImpl<char> &path);

struct LinkRequest {
  std::vector<std::string> objects;
  std::vector<std::string> kernels; // of users, beside them
  std::string output;
  bool shared = false;
  std::vector<RuntimeLibrary> libraries; // that they call
  std::vector<std::string>
      archives; // of other devices: the first that exists, relative to the runtime's folder
};

// Links objects of models with the archives of the runtime: through CXX, clang-22, clang, g++ or
// cc, whichever is found first. NotFound where there is none, or where a library's file is missing,
// Internal with the linker's messages when it fails.
absl::Status linkModel(const LinkRequest &request, const std::string &runtimeFolder);

} // namespace weft::compiler
