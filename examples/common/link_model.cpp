#include "examples/common/link_model.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>

#include "weft/error.h"
#include "weft/io/files.h"

namespace examples {
namespace {

namespace fs = std::filesystem;

constexpr const char *kModelHeader =
#include "examples/common/model_header.inc"
    ;
constexpr const char *kAbiHeader =
#include "examples/common/abi_header.inc"
    ;
constexpr const char *kVersionHeader =
#include "examples/common/version_header.inc"
    ;

// Where libweft_aot.a lies: WEFT_RUNTIME_DIR, or runtime/aot below the folder of this program or
// one above it.
std::string runtime_folder() {
  if (const char *chosen = std::getenv("WEFT_RUNTIME_DIR"); chosen && *chosen)
    return chosen;
  std::error_code error;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "runtime/aot/libweft_aot.a", error))
      return folder / "runtime/aot";
    if (folder == folder.root_path())
      break;
  }
  throw weft::Error(weft::ErrorKind::kCompile, "the runtime's archive libweft_aot.a was not found: "
                                               "build //runtime/aot, or set WEFT_RUNTIME_DIR");
}

std::string shell_quoted(const std::string &text) {
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Standard output of a shell command and whether it succeeded.
std::pair<std::string, bool> run_shell(const std::string &command) {
  std::FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    throw weft::Error(weft::ErrorKind::kRun, "cannot run " + command);
  std::string text;
  char chunk[4096];
  while (size_t count = std::fread(chunk, 1, sizeof chunk, pipe))
    text.append(chunk, count);
  int status = pclose(pipe);
  return {text, WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

// The command that makes the executable, as a script that can be run again.
std::string build_script(const LinkOptions &options) {
  return "#!/bin/sh\n# Links the model's object with " + options.source_name +
         ". Run it in this folder.\nset -e\n"
         "RUNTIME=${WEFT_RUNTIME_DIR:-" +
         shell_quoted(runtime_folder()) +
         "}\n"
         "for CC in \"$CC\" clang-22 clang cc gcc; do command -v \"$CC\" >/dev/null && break; "
         "done\n"
         "\"$CC\" -O2 -I. " +
         options.source_name + " " + options.object + " -o " + options.executable +
         " -Wl,--gc-sections -Wl,--as-needed -Wl,-s \\\n"
         "  \"$RUNTIME/libweft_convolution.a\" \"$RUNTIME/libweft_onednn.a\" "
         "\"$RUNTIME/libweft_sort.a\" \"$RUNTIME/libweft_aot.a\" -ldnnl " +
         options.libraries + (options.libraries.empty() ? "" : " ") + "-lstdc++ -lm -lpthread\n";
}

} // namespace

std::string link_model(const std::string &folder, const LinkOptions &options) {
  weft::io::make_writable_folder(folder + "/runtime/aot");
  weft::io::make_writable_folder(folder + "/runtime/abi");
  weft::io::write_file(folder + "/runtime/aot/weft_model.h", kModelHeader);
  weft::io::write_file(folder + "/runtime/abi/weft_runtime.h", kAbiHeader);
  weft::io::write_file(folder + "/runtime/abi/weft_version.h", kVersionHeader);
  weft::io::write_file(folder + "/" + options.source_name, options.source);
  weft::io::write_file(folder + "/build.sh", build_script(options));
  auto [messages, ok] = run_shell("cd " + shell_quoted(folder) + " && sh build.sh 2>&1");
  std::string executable = folder + "/" + options.executable;
  if (!ok)
    throw weft::Error(weft::ErrorKind::kCompile, "linking " + executable + " failed:\n" + messages);
  return executable;
}

std::string output_of(const std::vector<std::string> &command) {
  std::string line;
  for (const std::string &word : command)
    line += (line.empty() ? "" : " ") + shell_quoted(word);
  auto [text, ok] = run_shell(line);
  if (!ok)
    throw weft::Error(weft::ErrorKind::kRun, command.at(0) + " failed");
  return text;
}

} // namespace examples
