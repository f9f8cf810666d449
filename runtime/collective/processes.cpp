#include "runtime/collective/processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace weft::runtime {

using std::chrono::steady_clock;

std::string rank_program() {
  const char *sources = std::getenv("TEST_SRCDIR"), *workspace = std::getenv("TEST_WORKSPACE");
  return sources ? absl::StrCat(sources, "/", workspace, "/runtime/collective/rank_program")
                 : std::filesystem::absolute("bazel-bin/runtime/collective/rank_program").string();
}

Variables common_variables() {
  Variables variables;
  for (const char *name : {"PATH", "TSAN_OPTIONS", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char *value = std::getenv(name))
      variables[name] = value;
  return variables;
}

std::string temporary_file(const std::string &what) {
  static int files = 0;
  const char *folder = std::getenv("TEST_TMPDIR");
  return absl::StrCat(folder ? folder : "/tmp", "/", what, "-", getpid(), "-", files++);
}

Process::Process(std::vector<std::string> words, Variables variables) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    std::abort();
  output_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::vector<std::string> settings;
  for (const auto &[name, value] : variables)
    settings.push_back(name + "=" + value);
  std::vector<char *> argv, envp;
  for (std::string &word : words)
    argv.push_back(word.data());
  for (std::string &setting : settings)
    envp.push_back(setting.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  if (posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0)
    pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
}

Process::~Process() {
  if (pid_ > 0) {
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ::close(output_);
}

void Process::signal(int number) {
  kill(pid_, number);
}

bool Process::read_until(const std::string &text) {
  auto end = steady_clock::now() + std::chrono::seconds(60);
  while (text.empty() || text_.find(text) == text_.npos) {
    pollfd one = {output_, POLLIN, 0};
    char bytes[4096];
    if (steady_clock::now() > end)
      return false;
    if (poll(&one, 1, 100) <= 0)
      continue;
    ssize_t got = read(output_, bytes, sizeof bytes);
    if (got <= 0)
      return text.empty();
    text_.append(bytes, static_cast<size_t>(got));
  }
  return true;
}

int Process::finish() {
  if (!read_until("")) {
    ADD_FAILURE() << "it hangs; so far: " << text_;
    return -2;
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Job::Job(int size, const std::vector<std::string> &args, const Variables &more)
    : file(temporary_file("meet")) {
  for (int rank = 0; rank < size; ++rank)
    add(rank, size, args, more);
}

Job::~Job() {
  ranks.clear();
  unlink(file.c_str());
}

void Job::add(int rank, int size, const std::vector<std::string> &args, const Variables &more,
              std::vector<std::string> before) {
  Variables variables = common_variables();
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(size);
  variables["WEFT_RENDEZVOUS"] = file;
  variables["WEFT_COLLECTIVE_TIMEOUT"] = "10";
  for (const auto &[name, value] : more)
    variables[name] = value;
  before.push_back(rank_program());
  before.insert(before.end(), args.begin(), args.end());
  ranks.push_back(std::make_unique<Process>(std::move(before), std::move(variables)));
}

void expect_says(Process &process, const std::string &what, int status) {
  EXPECT_EQ(process.finish(), status) << process.text();
  EXPECT_NE(process.text().find(what), std::string::npos)
      << "'" << what << "' is not in: " << process.text();
}

} // namespace weft::runtime
