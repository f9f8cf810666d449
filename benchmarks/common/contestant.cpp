#include "benchmarks/common/contestant.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

extern char **environ;

namespace weft::benchmarks {

Contestant::Contestant(std::string impl, const std::vector<std::string> &command)
    : impl_(std::move(impl)) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that died is reported where its answer is read
  int in[2], out[2];
  // Closed on exec: a later contestant that held this one's pipe would keep it from ever reading
  // its end.
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  int error = posix_spawnp(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (error != 0) {
    process_ = -1;
    throw std::runtime_error("cannot start " + impl_ + " (" + command[0] +
                             "): " + std::strerror(error));
  }
}

Contestant::~Contestant() {
  if (to_ >= 0)
    close(to_);
  if (from_ >= 0)
    close(from_);
  if (process_ > 0)
    waitpid(process_, nullptr, 0);
}

std::string Contestant::read_line() {
  for (;;) {
    if (size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char chunk[4096];
    ssize_t count = read(from_, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      throw std::runtime_error(impl_ + " ended before it answered");
    buffer_.append(chunk, static_cast<size_t>(count));
  }
}

double Contestant::wait_ready() {
  for (;;) {
    std::string line = read_line();
    if (line.rfind("ready ", 0) == 0)
      return std::atof(line.c_str() + 6);
  }
}

void Contestant::write_line(const std::string &line) {
  std::string text = line + "\n";
  if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error(impl_ + " does not listen");
}

std::optional<double> Contestant::choose(const std::string &name) {
  write_line("case " + name);
  for (;;) {
    std::string line = read_line();
    if (line == "none" || line.starts_with("none ")) {
      reason_ = line.substr(std::min<size_t>(line.size(), 5));
      return std::nullopt;
    }
    if (line.rfind("ready ", 0) == 0)
      return std::atof(line.c_str() + 6);
  }
}

double Contestant::run(int64_t n) {
  write_line("run " + std::to_string(n));
  return std::atof(read_line().c_str());
}

std::unique_ptr<Contestant> start_contestant(const std::string &command,
                                             const std::vector<std::string> &more) {
  size_t equals = command.find('=');
  std::vector<std::string> words;
  if (equals != command.npos) {
    std::istringstream stream(command.substr(equals + 1));
    for (std::string word; stream >> word;)
      words.push_back(word);
  }
  if (words.empty() || equals == 0)
    throw std::runtime_error("--contestant takes IMPL=COMMAND, not '" + command + "'");
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<Contestant>(command.substr(0, equals), words);
}

} // namespace weft::benchmarks
