#include "compiler/link/SystemLinker.h"

#include <cstdlib>
#include <dlfcn.h>

#include "runtime/core/status.h"
#include "runtime/io/files.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

namespace weft::compiler {
namespace {

constexpr const char *kArchive = "libweft_aot.a";

bool holdsArchive(llvm::StringRef folder) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, kArchive);
  return llvm::sys::fs::exists(path);
}

// The program that links, and the arguments that it begins with: CXX may be "ccache clang++".
absl::StatusOr<std::vector<std::string>> findDriver() {
  if (const char *chosen = std::getenv("CXX")) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(chosen, words);
    if (!words.empty()) {
      auto found = llvm::sys::findProgramByName(words.front());
      if (!found)
        return absl::NotFoundError("CXX is '" + std::string(chosen) + "', but no program '" +
                                   words.front().str() +
                                   "' was found to link with; name one that is there, or unset it");
      std::vector<std::string> command(words.begin(), words.end());
      command.front() = *found;
      return command;
    }
  }
  for (const char *name : {"clang++-22", "clang-22", "clang++", "g++", "cc", "clang", "gcc"})
    if (auto found = llvm::sys::findProgramByName(name))
      return std::vector<std::string>{*found};
  return absl::NotFoundError("no program that links was found (clang++, g++ or cc; CXX may name "
                             "one); --emit=obj needs none");
}

// What the runtime uses of abseil.
constexpr const char *kSharedAbseil[] = {"statusor",
                                         "status",
                                         "cord",
                                         "cordz_info",
                                         "cordz_handle",
                                         "cordz_functions",
                                         "cordz_sample_token",
                                         "cord_internal",
                                         "exponential_biased",
                                         "synchronization",
                                         "graphcycles_internal",
                                         "time",
                                         "time_zone",
                                         "civil_time",
                                         "malloc_internal",
                                         "stacktrace",
                                         "symbolize",
                                         "debugging_internal",
                                         "demangle_internal",
                                         "bad_optional_access",
                                         "bad_variant_access",
                                         "str_format_internal",
                                         "strings",
                                         "strings_internal",
                                         "int128",
                                         "throw_delegate",
                                         "raw_logging_internal",
                                         "log_severity",
                                         "spinlock_wait",
                                         "base"};

// What a library shows to those who load it.
constexpr const char *kExports = "{ global: weft_model_*; local: *; };\n";

} // namespace

absl::StatusOr<std::string> findRuntimeFolder(const std::string &given) {
  if (!given.empty()) {
    if (holdsArchive(given))
      return given;
    return absl::NotFoundError("there is no " + std::string(kArchive) + " in " + given);
  }
  if (const char *chosen = std::getenv("WEFT_RUNTIME_DIR"); chosen && *chosen) {
    if (holdsArchive(chosen))
      return std::string(chosen);
    return absl::NotFoundError("WEFT_RUNTIME_DIR is " + std::string(chosen) +
                               ", where there is no " + kArchive);
  }
  // Beside the program, or beside libweft.so where Weft is one.
  static const char anchor = 0;
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr),
              start = llvm::sys::path::parent_path(self).str();
  Dl_info library;
  std::string own = dladdr(&anchor, &library) && library.dli_fname ? library.dli_fname : "";
  for (const std::string &file : {self, own}) {
    llvm::SmallString<128> real;
    llvm::StringRef folder = llvm::sys::path::parent_path(
        llvm::sys::fs::real_path(file, real) ? llvm::StringRef(file) : real.str());
    for (; !folder.empty(); folder = llvm::sys::path::parent_path(folder)) {
      for (const char *below : {"runtime/aot", "lib/weft"}) {
        llvm::SmallString<128> candidate(folder);
        llvm::sys::path::append(candidate, below);
        if (holdsArchive(candidate))
          return std::string(candidate.str());
      }
      if (folder == llvm::sys::path::root_path(folder))
        break;
    }
  }
  return absl::NotFoundError("the runtime's archive " + std::string(kArchive) +
                             " was not found in runtime/aot or lib/weft of " + start +
                             " or a folder above; build //runtime/aot or set WEFT_RUNTIME_DIR");
}

absl::Status temporaryFile(llvm::StringRef prefix, llvm::StringRef suffix,
                           llvm::SmallVectorImpl<char> &path) {
  std::error_code error = llvm::sys::fs::createTemporaryFile(prefix, suffix, path);
  if (!error)
    return absl::OkStatus();
  llvm::SmallString<128> folder;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  return absl::FailedPreconditionError("cannot make a temporary file in " +
                                       std::string(folder.str()) + ": " + error.message() +
                                       "; TMPDIR names another folder");
}

absl::Status linkModel(const LinkRequest &request, const std::string &runtimeFolder) {
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> driver, findDriver());
  const std::string program = driver.front();
  std::vector<std::string> arguments = std::move(driver);
  arguments.insert(arguments.end(), {"-o", request.output});
  for (const auto *files : {&request.objects, &request.kernels})
    arguments.insert(arguments.end(), files->begin(), files->end());

  llvm::SmallString<128> exports, messages;
  WEFT_RETURN_IF_ERROR(temporaryFile("weft-link", "txt", messages));
  llvm::FileRemover removeMessages(messages), removeExports;
  if (request.shared) {
    WEFT_RETURN_IF_ERROR(temporaryFile("weft-exports", "map", exports));
    removeExports.setFile(exports);
    WEFT_RETURN_IF_ERROR(runtime::write_file_atomically(std::string(exports.str()), kExports));
    arguments.push_back("-shared");
    arguments.push_back("-Wl,--version-script=" + std::string(exports.str()));
    arguments.push_back("-Wl,-u,weft_model_open"); // brings all of the interface
    // Debian's static abseil is not made for shared libraries (thread-local variables of the
    // executable's kind), so that the shared one comes first.
    arguments.push_back("-Wl,--no-as-needed");
    for (const char *library : kSharedAbseil)
      arguments.push_back("-labsl_" + std::string(library));
  } else {
    arguments.push_back(runtimeFolder + "/libweft_aot_main.a");
  }
  // Only what is used stays: no library appears in the result that its plan does not call.
  arguments.insert(arguments.end(), {"-Wl,--gc-sections", "-Wl,--as-needed", "-Wl,-s"});
  for (const RuntimeLibrary &library : request.libraries)
    for (const std::string &file : library.files) {
      llvm::SmallString<128> path(file);
      llvm::sys::path::make_absolute(runtimeFolder, path);
      if (!llvm::sys::fs::exists(path))
        return absl::NotFoundError("the program calls '" + library.entries + "', but the file " +
                                   std::string(path.str()) + " of that library is not there");
      arguments.push_back(std::string(path.str()));
    }
  if (!request.archives.empty()) {
    auto existing = llvm::find_if(request.archives, [&](const std::string &path) {
      return llvm::sys::fs::exists(runtimeFolder + "/" + path);
    });
    if (existing == request.archives.end())
      return absl::NotFoundError("the device's archive " + request.archives.front() +
                                 " was not found in " + runtimeFolder + ", beside " + kArchive +
                                 "; it comes with Weft as that one does");
    arguments.push_back(runtimeFolder + "/" + *existing);
  }
  arguments.push_back(runtimeFolder + "/" + kArchive);
  for (const RuntimeLibrary &library : request.libraries)
    arguments.insert(arguments.end(), library.flags.begin(), library.flags.end());
  arguments.insert(arguments.end(), {"-lstdc++", "-lm", "-lpthread"});

  std::vector<llvm::StringRef> views(arguments.begin(), arguments.end());
  std::string error;
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(messages),
                                                llvm::StringRef(messages)};
  int code = llvm::sys::ExecuteAndWait(program, views, std::nullopt, redirects, 0, 0, &error);
  if (code == 0)
    return absl::OkStatus();
  auto text = llvm::MemoryBuffer::getFile(messages);
  return absl::InternalError(
      "linking " + request.output + " with " + program + " failed" +
      (error.empty() ? "" : ": " + error) +
      (text && (*text)->getBufferSize() ? ":\n" + (*text)->getBuffer().str() : ""));
}

} // namespace weft::compiler
