// main() of a program with options: bad input is one line on stderr and exit code 2.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace examples {

// Parses the arguments and runs the body; gives what main() returns: the body's value, 0 after
// --help, 2 when the arguments or a file that they name are bad (a weft::Error about a file or a
// value), else 1. The errors begin with `name`.
int run_program(const char *name, CLI::App &app, int argc, char **argv,
                const std::function<int()> &body);

} // namespace examples
