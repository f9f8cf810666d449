// What most tests of the public API include, for tools/bazel/precompiled.bzl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/weft.h"
