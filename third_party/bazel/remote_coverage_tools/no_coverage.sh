#!/bin/sh
echo "coverage reports need Bazel's downloaded coverage tools, which this workspace does without" >&2
exit 1
