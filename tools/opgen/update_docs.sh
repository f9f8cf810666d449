#!/usr/bin/env bash
# Writes docs/ops.md anew from the op records: bazel run //tools/opgen:update_docs
set -euo pipefail
cp "$1" "$BUILD_WORKSPACE_DIRECTORY/docs/ops.md"
chmod 644 "$BUILD_WORKSPACE_DIRECTORY/docs/ops.md"
