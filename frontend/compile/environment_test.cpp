#include <cstdlib>

#include <gtest/gtest.h>

#include "frontend/compile/environment.h"

namespace weft::recorder {
namespace {

TEST(Environment, VariablesSetOptions) {
  setenv("WEFT_EAGER", "on", 1);
  setenv("WEFT_BUDGET_OPS", "7", 1);
  setenv("WEFT_MATH", "fast", 1);
  setenv("WEFT_CACHE_DIR", "off", 1);
  Config config = config_from_environment();
  EXPECT_TRUE(config.eager);
  EXPECT_EQ(config.budget_ops, 7);
  EXPECT_EQ(config.math, Math::kFast);
  EXPECT_EQ(config.cache_dir, "off");
}

TEST(Environment, WhatDoesNotParseIsNamedAndIgnored) {
  setenv("WEFT_EAGER", "perhaps", 1);
  setenv("WEFT_BUDGET_OPS", "0", 1);
  setenv("WEFT_MATH", "wild", 1);
  setenv("WEFT_BACKEND", "abacus", 1);
  setenv("WEFT_DEVICE", "abacus:1", 1);
  testing::internal::CaptureStderr();
  Config config = config_from_environment(), defaults;
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(config.eager, defaults.eager);
  EXPECT_EQ(config.budget_ops, defaults.budget_ops);
  EXPECT_EQ(config.math, defaults.math);
  EXPECT_EQ(config.backend, defaults.backend);
  EXPECT_EQ(config.device, defaults.device);
  for (const char *line : {"weft: WEFT_EAGER=perhaps is ignored: it must be 0 or 1\n",
                           "weft: WEFT_BUDGET_OPS=0 is ignored: it must be a number from 1 to ",
                           "weft: WEFT_MATH=wild is ignored: it must be exact, standard or fast\n",
                           "weft: WEFT_BACKEND=abacus is ignored: it must be one of",
                           "weft: WEFT_DEVICE is ignored: "})
    EXPECT_NE(said.find(line), std::string::npos) << line << "\n" << said;
}

TEST(Environment, AScopeDecidesHowAThreadComputes) {
  Config config;
  {
    MathScope scope(Math::kFast);
    EXPECT_EQ(math_of(config), Math::kFast);
  }
  EXPECT_EQ(math_of(config), config.math);
}

} // namespace
} // namespace weft::recorder
