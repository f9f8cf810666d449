// What is measured in processes of its own.
#pragma once

#include <string>
#include <vector>

namespace weft::benchmarks {

// What the shell's command prints. Throws std::runtime_error where it fails.
std::string output_of(const std::string &command);

struct NamedCommand {
  std::string impl, command;
};
// Of what a suite's program is told: "IMPL=COMMAND" each.
std::vector<NamedCommand> named_commands(const std::vector<std::string> &given);

} // namespace weft::benchmarks
