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

} // namespace weft::benchmarks
