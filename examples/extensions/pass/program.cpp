// The pass registered from C++ (with --register), and what it changes: x * x overflows, abs(x) does
// not.
#include <cstring>
#include <iostream>

#include "abs_pass.h"
#include "compiler/pipeline/PassHooks.h"
#include "weft/weft.h"

int main(int argc, char **argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--register")) {
    using namespace weft::compiler;
    absl::Status status = registerPass(
        Phase::Graph, Position::After, [] { return std::make_unique<mine::AbsPass>(); }, "mine-abs",
        "1.0");
    if (!status.ok()) {
      std::cerr << status.message() << "\n";
      return 1;
    }
  }
  weft::Tensor x = weft::tensor({-3.f, 1e30f});
  std::cout << weft::sqrt(x * x) << "\n";
}
