// Runs a program as a user would: arguments, environment, exit code, output.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::tests {

struct ProcessResult {
  int exit_code = -1; // -1 when a signal ended it
  int signal = 0;
  std::string out, err;
};

// Runs to the end. The program's path is relative to the runfiles root, where tests start.
// `kill_when`, if given, is asked every few milliseconds; when it says true, the process is killed
// at once (SIGKILL).
ProcessResult run_process(const std::vector<std::string> &command,
                          const std::function<bool()> &kill_when = {});

// A new, empty folder of the running test.
std::string scratch_folder();

std::string read_whole(const std::string &path);
void write_whole(const std::string &path, const std::string &content);

} // namespace weft::tests
