// A plugin of WEFT_PLUGINS that uses Weft while it is loaded, in a process that did nothing before.
#include <dlfcn.h>

#include <cstdlib>

#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(LoadingPlugin, MayUseWeft) {
  const char *path = std::getenv("WEFT_PLUGINS");
  ASSERT_NE(path, nullptr);
  void *library = dlopen(path, RTLD_NOW);
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
    load_plugin(std::getenv("WEFT_PLUGINS")); // it is being loaded: nothing to do
    seen = ones({3}).sum().item<float>();
  };
  EXPECT_EQ((ones({3}) * 2).sum().item<float>(), 6);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(config().budget_ops, 1234);
}

} // namespace
} // namespace weft
