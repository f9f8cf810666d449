// A plugin of WEFT_PLUGINS that uses Weft while it is loaded, in a process that did nothing before.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(LoadingPlugin, MayUseWeft) {
  const char *given = std::getenv("WEFT_PLUGINS");
  ASSERT_NE(given, nullptr);
  static const std::string path = given;
  // One that is not there is a line, and the program goes on.
  ::setenv("WEFT_PLUGINS", ("/nowhere/none.so:" + path).c_str(), 1);
  testing::internal::CaptureStderr();
  void *library = dlopen(path.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  auto *while_loading = static_cast<void (**)()>(dlsym(library, "test_while_loading"));
  ASSERT_NE(while_loading, nullptr) << dlerror();
  static int loads = 0;
  static float seen = 0;
  *while_loading = [] {
    ++loads;
    Config changed = config();
    changed.budget_ops = 1234;
    set_config(changed);
    load_plugin(path); // it is being loaded: nothing to do
    seen = ones({3}).sum().item<float>();
  };
  EXPECT_EQ((ones({3}) * 2).sum().item<float>(), 6);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(config().budget_ops, 1234);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("weft: WEFT_PLUGINS: cannot load the plugin /nowhere/none.so"), 0u) << said;
  EXPECT_NE(said.find("; the program goes on without\n"), std::string::npos) << said;
}

} // namespace
} // namespace weft
