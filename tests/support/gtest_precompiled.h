// What most tests of the runtime include, for tools/bazel/precompiled.bzl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/statusor.h"
