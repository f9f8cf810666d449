// A collective layer of WEFT_PLUGINS, in a program whose first call of Weft is init().
#include "weft/distributed/distributed.h"

#include "gtest/gtest.h"

namespace weft::distributed {
namespace {

TEST(LayerPlugin, IsThereForInit) {
  EXPECT_EQ(init({.layer = "socket"}).size(), 1);
}

} // namespace
} // namespace weft::distributed
