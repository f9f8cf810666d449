#include "tests/programs/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

extern char **environ;

namespace weft::tests {
namespace fs = std::filesystem;

ProcessResult run_process(const std::vector<std::string> &command,
                          const std::function<bool()> &kill_when) {
  std::string folder = scratch_folder();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (folder + "/out").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, (folder + "/err").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t process = -1;
  int error = posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw std::runtime_error("cannot start " + command[0] + ": " + std::strerror(error));
  int status = 0;
  if (kill_when) {
    while (waitpid(process, &status, WNOHANG) == 0) {
      if (kill_when()) {
        kill(process, SIGKILL);
        waitpid(process, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } else {
    waitpid(process, &status, 0);
  }
  ProcessResult result;
  if (WIFEXITED(status))
    result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  result.out = read_whole(folder + "/out");
  result.err = read_whole(folder + "/err");
  fs::remove_all(folder);
  return result;
}

std::string scratch_folder() {
  const char *base = std::getenv("TEST_TMPDIR");
  std::string pattern = std::string(base ? base : "/tmp") + "/weft-test.XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error("cannot make a folder for the test in " + pattern);
  return pattern;
}

std::string read_whole(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_whole(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

} // namespace weft::tests
