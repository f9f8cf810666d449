// What is measured in processes of its own.
#pragma once

#include <string>

namespace weft::benchmarks {

// What the shell's command prints. Throws std::runtime_error where it fails.
std::string output_of(const std::string &command);

} // namespace weft::benchmarks
