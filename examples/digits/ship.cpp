#include "examples/digits/ship.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>

#include "weft/weft.h"

namespace digits {
namespace {

namespace fs = std::filesystem;

constexpr const char *kClassify =
#include "examples/digits/classify_source.inc"
    ;
// The two headers that the model's own one includes, so that the folder is complete without Weft's sources.
constexpr const char *kModelHeader =
#include "examples/digits/model_header.inc"
    ;
constexpr const char *kAbiHeader =
#include "examples/digits/abi_header.inc"
    ;

// Where libweft_aot.a lies: WEFT_RUNTIME_DIR, or runtime/aot below the folder of this program or one above it.
std::string runtime_folder() {
  if (const char *chosen = std::getenv("WEFT_RUNTIME_DIR"); chosen && *chosen) return chosen;
  std::error_code error;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (fs::exists(folder / "runtime/aot/libweft_aot.a", error)) return folder / "runtime/aot";
    if (folder == folder.root_path()) break;
  }
  throw weft::Error(weft::ErrorKind::kCompile,
                    "the runtime's archive libweft_aot.a was not found: build //runtime/aot, or set WEFT_RUNTIME_DIR");
}

std::string shell_quoted(const std::string &text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Standard output of a shell command and whether it succeeded.
std::pair<std::string, bool> output_of(const std::string &command) {
  std::FILE *pipe = popen(command.c_str(), "r");
  if (!pipe) throw weft::Error(weft::ErrorKind::kRun, "cannot run " + command);
  std::string text;
  char chunk[4096];
  while (size_t count = std::fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, count);
  int status = pclose(pipe);
  return {text, WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

// The command that makes the executable, as a script that can be run again.
std::string build_script(const std::string &runtime) {
  return "#!/bin/sh\n# Links the model's object with classify.c. Run it in this folder.\nset -e\n"
         "RUNTIME=${WEFT_RUNTIME_DIR:-" +
         shell_quoted(runtime) +
         "}\n"
         "for CC in \"$CC\" clang-22 clang cc gcc; do command -v \"$CC\" >/dev/null && break; done\n"
         "\"$CC\" -O2 -I. classify.c digits.o -o classify -Wl,--gc-sections -Wl,--as-needed -Wl,-s \\\n"
         "  \"$RUNTIME/libweft_onednn.a\" \"$RUNTIME/libweft_aot.a\" -ldnnl -lpng16 -lstdc++ -l:libgomp.so.1 -lm -lpthread\n";
}

} // namespace

std::string ship(const DigitsNet &trained, int64_t height, int64_t width, const weft::data::ImageOptions &pixels,
                 const std::string &folder) {
  DigitsNet model = weft::nn::clone(trained);
  model.eval();
  weft::NoGrad no_grad;
  weft::Program program = weft::trace([&](const weft::Tensor &image) { return model((image / 255.0 - pixels.mean) / pixels.deviation); },
                                      {weft::zeros({1, 1, height, width})});
  weft::CompileOptions options;
  options.emit = weft::Emit::object;
  options.output = folder + "/digits.o";
  options.name = "digits";
  program.compile(options);
  fs::create_directories(folder + "/runtime/aot");
  fs::create_directories(folder + "/runtime/abi");
  weft::io::write_file(folder + "/runtime/aot/weft_model.h", kModelHeader);
  weft::io::write_file(folder + "/runtime/abi/weft_runtime.h", kAbiHeader);
  weft::io::write_file(folder + "/classify.c", kClassify);
  weft::io::write_file(folder + "/build.sh", build_script(runtime_folder()));
  auto [messages, ok] = output_of("cd " + shell_quoted(folder) + " && sh build.sh 2>&1");
  if (!ok) throw weft::Error(weft::ErrorKind::kCompile, "linking " + folder + "/classify failed:\n" + messages);
  return folder + "/classify";
}

std::string classify(const std::string &executable, const std::string &picture) {
  auto [text, ok] = output_of(shell_quoted(fs::absolute(executable)) + " " + shell_quoted(fs::absolute(picture)));
  if (!ok) throw weft::Error(weft::ErrorKind::kRun, executable + " failed");
  return text.substr(0, text.find('\n'));
}

} // namespace digits
