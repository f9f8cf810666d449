// What most tests of the compiler include, for tools/bazel/precompiled.bzl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/weft/ir/precompiled.h"
