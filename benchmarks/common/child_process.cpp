#include "benchmarks/common/child_process.h"

#include <cstdio>
#include <stdexcept>

namespace weft::benchmarks {

std::string output_of(const std::string &command) {
  std::FILE *pipe = popen(command.c_str(), "r");
  std::string text;
  char chunk[512];
  while (pipe && std::fgets(chunk, sizeof chunk, pipe))
    text += chunk;
  if (!pipe || pclose(pipe) != 0)
    throw std::runtime_error("this command failed: " + command);
  return text;
}

std::vector<NamedCommand> named_commands(const std::vector<std::string> &given) {
  std::vector<NamedCommand> commands;
  for (const std::string &text : given) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos)
      throw std::runtime_error("this is not IMPL=COMMAND: " + text);
    commands.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return commands;
}

} // namespace weft::benchmarks
