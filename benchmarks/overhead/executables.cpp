#include "benchmarks/overhead/executables.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/common/report.h"
#include "weft/weft.h"

extern char **environ;

namespace weft::benchmarks {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns =
    50; // of each executable, after one that brings the files into memory; the median counts

struct Mlp : nn::Module {
  nn::Linear up, down;
  Mlp(int64_t inputs, int64_t inner, int64_t outputs)
      : up(child("up", nn::Linear(inputs, inner))),
        down(child("down", nn::Linear(inner, outputs))) {}
  Tensor operator()(const Tensor &x) {
    return down(relu(up(x)));
  }
};

// From before the process is made until it is gone; its output goes nowhere.
double seconds_of(const std::vector<std::string> &command) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t process;
  int status = -1;
  double start = now();
  int error = posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  if (error == 0)
    waitpid(process, &status, 0);
  double seconds = now() - start;
  posix_spawn_file_actions_destroy(&actions);
  if (status != 0)
    throw std::runtime_error("the executable " + command[0] + " failed");
  return seconds;
}

void measure(Report &report, const fs::path &folder, const std::string &name, Mlp &&mlp,
             int64_t inputs, int threads) {
  NoGrad no_grad;
  std::string model = folder / name, x = folder / "x.npy";
  Tensor given = rand({1, inputs});
  io::save_npy(x, given);
  trace(mlp, {given}).compile({.emit = Emit::executable, .output = model, .embed_weights = false});
  report.add({"overhead", name + "_size", "weft", "size", "bytes",
              static_cast<double>(fs::file_size(model)), threads, 1});
  std::vector<double> times;
  std::vector<std::string> command = {model, "--weights", model + ".safetensors", "--input",
                                      x,     "--threads", std::to_string(threads)};
  for (int run = 0; run <= kRuns; ++run) {
    double seconds = seconds_of(command);
    if (run > 0)
      times.push_back(seconds);
  }
  report.add({"overhead", name + "_start_to_output", "weft", "time", "ms", 1e3 * median(times),
              threads, 1});
}

} // namespace

void executables(Report &report, int threads) {
  fs::path folder = fs::temp_directory_path() / ("weft-executables-" + std::to_string(getpid()));
  fs::create_directory(folder);
  measure(report, folder, "aot_mlp_784_128_10", Mlp(784, 128, 10), 784, threads);
  measure(report, folder, "aot_mlp_16_16_4", Mlp(16, 16, 4), 16, threads);
  fs::remove_all(folder);
}

} // namespace weft::benchmarks
