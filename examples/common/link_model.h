// From a model's object to an executable without Weft around it.
#pragma once

#include <string>
#include <vector>

namespace examples {

struct LinkOptions {
  std::string object;      // in the folder, as Program::compile wrote it
  std::string source_name; // of the C program that calls the model, and its text
  std::string source;
  std::string executable;
  std::string libraries = {}; // that the C program needs: "-lpng16"
};

// Writes the C program, the headers that the model's own one includes (so that the folder is
// complete without Weft's sources) and build.sh into the folder, and links them with the machine's
// C compiler. A library that the model does not call is not linked. Gives the executable's path.
// Throws weft::Error when a file cannot be written or the linker fails.
std::string link_model(const std::string &folder, const LinkOptions &options);

// What a command prints. Throws weft::Error when it cannot be run or fails.
std::string output_of(const std::vector<std::string> &command);

} // namespace examples
