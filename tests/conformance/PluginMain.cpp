// main() of the suite with plugins: the cases come from the registered backends, so that those of
// WEFT_PLUGINS must be there first.
#include <iostream>

#include "compiler/plugin/Plugin.h"
#include "gtest/gtest.h"

int main(int argc, char **argv) {
  if (absl::Status status = weft::compiler::loadPluginsFromEnvironment(); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
