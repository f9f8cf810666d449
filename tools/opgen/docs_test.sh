#!/usr/bin/env bash
# Fails when the committed docs/ops.md ($2) is not what the records give ($1).
if ! diff -u "$2" "$1"; then
  echo "docs/ops.md is stale: run  bazel run //tools/opgen:update_docs  and commit it"
  exit 1
fi
