#!/usr/bin/env bash
# Builds the sealed flavour of libweft.so and tests it, as tools/test.sh does among all the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh
exec bazel test --config=sealed --test_output=streamed //tools/install:sealed_test
