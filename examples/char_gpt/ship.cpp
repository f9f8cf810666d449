#include "examples/char_gpt/ship.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <sys/wait.h>

#include "weft/weft.h"

namespace char_gpt {
namespace {

namespace fs = std::filesystem;

constexpr const char *kGenerate =
#include "examples/char_gpt/generate_source.inc"
    ;
// The two headers that the model's own one includes, so that the folder is complete without Weft's sources.
constexpr const char *kModelHeader =
#include "examples/char_gpt/model_header.inc"
    ;
constexpr const char *kAbiHeader =
#include "examples/char_gpt/abi_header.inc"
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

// Standard output of a shell command (with what it wrote to standard error, if asked for) and whether it succeeded.
std::pair<std::string, bool> output_of(const std::string &command) {
  std::FILE *pipe = popen(command.c_str(), "r");
  if (!pipe) throw weft::Error(weft::ErrorKind::kRun, "cannot run " + command);
  std::string text;
  char chunk[4096];
  while (size_t count = std::fread(chunk, 1, sizeof chunk, pipe)) text.append(chunk, count);
  int status = pclose(pipe);
  return {text, WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

std::string vocabulary_header(const weft::data::Vocabulary &vocabulary, int64_t context) {
  std::string text =
      "// The characters that the model knows, by number, and how many of them it sees.\n#include <stdint.h>\n#define VOCABULARY " +
      std::to_string(vocabulary.size()) + "\n#define CONTEXT " + std::to_string(context) +
      "\nstatic const uint32_t kVocabulary[VOCABULARY] = {";
  for (char32_t character : vocabulary.characters()) text += std::to_string(static_cast<uint32_t>(character)) + ",";
  text.back() = '}';
  return text + ";\n";
}

// The command that makes the executable, as a script that can be run again. A library that the plan does not call is not linked.
std::string build_script(const std::string &runtime) {
  return "#!/bin/sh\n# Links the model's object with generate.c. Run it in this folder.\nset -e\n"
         "RUNTIME=${WEFT_RUNTIME_DIR:-" +
         shell_quoted(runtime) +
         "}\n"
         "for CC in \"$CC\" clang-22 clang cc gcc; do command -v \"$CC\" >/dev/null && break; done\n"
         "\"$CC\" -O2 -I. generate.c char_gpt.o -o generate -Wl,--gc-sections -Wl,--as-needed -Wl,-s \\\n"
         "  \"$RUNTIME/libweft_onednn.a\" \"$RUNTIME/libweft_aot.a\" -ldnnl -lstdc++ -l:libgomp.so.1 -lm -lpthread\n";
}

} // namespace

Shipped ship(const CharGpt &trained, const weft::data::Vocabulary &vocabulary, const std::string &folder) {
  CharGpt model = weft::nn::clone(trained);
  model.eval();
  int64_t context = model.sizes().context;
  weft::NoGrad no_grad;
  weft::Program program = weft::trace(model, {weft::zeros({1, context}, weft::int64)});
  Shipped shipped{.object = folder + "/char_gpt.o", .header = folder + "/char_gpt.h", .executable = folder + "/generate"};
  weft::CompileOptions options;
  options.emit = weft::Emit::object;
  options.output = shipped.object;
  options.name = "char_gpt";
  program.compile(options);
  fs::create_directories(folder + "/runtime/aot");
  fs::create_directories(folder + "/runtime/abi");
  weft::io::write_file(folder + "/runtime/aot/weft_model.h", kModelHeader);
  weft::io::write_file(folder + "/runtime/abi/weft_runtime.h", kAbiHeader);
  weft::io::write_file(folder + "/vocabulary.h", vocabulary_header(vocabulary, context));
  weft::io::write_file(folder + "/generate.c", kGenerate);
  weft::io::write_file(folder + "/build.sh", build_script(runtime_folder()));
  auto [messages, ok] = output_of("cd " + shell_quoted(folder) + " && sh build.sh 2>&1");
  if (!ok) throw weft::Error(weft::ErrorKind::kCompile, "linking " + shipped.executable + " failed:\n" + messages);
  return shipped;
}

std::string run_executable(const std::string &executable, const std::string &prompt, int64_t length) {
  auto [text, ok] = output_of(shell_quoted(fs::absolute(executable)) + " " + shell_quoted(prompt) + " " + std::to_string(length));
  if (!ok) throw weft::Error(weft::ErrorKind::kRun, executable + " failed");
  return text;
}

DumpScope::DumpScope(const std::string &folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  weft::Config config = weft::config();
  previous_ = config.dump_dir;
  config.dump_dir = folder;
  weft::set_config(config);
}

void DumpScope::end() {
  if (!open_) return;
  open_ = false;
  weft::Config config = weft::config();
  config.dump_dir = previous_;
  weft::set_config(config);
}

} // namespace char_gpt
