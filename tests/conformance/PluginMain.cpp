// main() of the suite with plugins: the cases come from the registered backends, so that those of
// WEFT_PLUGINS must be there first. A run that skips everything is no success.
#include <iostream>

#include "compiler/plugin/Plugin.h"
#include "gtest/gtest.h"

int main(int argc, char **argv) {
  if (absl::Status status = weft::compiler::loadPluginsFromEnvironment(); !status.ok()) {
    std::cerr << status.message() << "\n";
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  int status = RUN_ALL_TESTS();
  if (status == 0 && !GTEST_FLAG_GET(list_tests) &&
      testing::UnitTest::GetInstance()->successful_test_count() == 0) {
    std::cerr << "no test of the suite ran: none is chosen, or all were skipped\n";
    return 1;
  }
  return status;
}
