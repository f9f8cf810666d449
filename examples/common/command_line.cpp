#include "examples/common/command_line.h"

#include <cstdio>

#include "weft/error.h"

namespace examples {

constexpr int kBadInput = 2;

int run_program(const char *name, CLI::App &app, int argc, char **argv,
                const std::function<int()> &body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error); // --help
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return kBadInput;
  }
  try {
    return body();
  } catch (const weft::Error &error) {
    bool is_input =
        error.kind() == weft::ErrorKind::kFile || error.kind() == weft::ErrorKind::kValue;
    std::fprintf(stderr, "%s: %s\n", name, is_input ? error.message().c_str() : error.what());
    return is_input ? kBadInput : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

} // namespace examples
