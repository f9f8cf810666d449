#!/usr/bin/env bash
# names_test.sh FILE_OF_THE_ROOT: nothing outside of this folder names CUDA, so that a backend comes
# and goes with its folder. Documents and the list of backends (backends/BUILD) may; so may the files
# of the collective layer that is CUDA's by nature, and comments that give a device's name.
set -euo pipefail
root=$(dirname "$(readlink -f "$1")")
[ -d "$root/backends/cuda" ] || { echo "$root is no source tree"; exit 1; }
cd "$root"
found=$(grep -rniE 'cuda|nvidia|nvptx|cublas|cudnn|\bptx' --include='*.h' --include='*.cpp' --include='*.c' --include='*.td' --include='*.bzl' \
  --include='*.py' --include='*.sh' --include='*.mlir' --include=BUILD --include=WORKSPACE \
  --exclude-dir='.?*' --exclude-dir='bazel-*' . | grep -v -e '^\./backends/cuda/' -e '^\./backends/BUILD:' \
  -e '^\./runtime/collective/\(nccl_\|recording_\)' -e '^\./runtime/collective/BUILD:' -e '// .*"cuda"' || true)
if [ -n "$found" ]; then
  echo "CUDA is named outside of backends/cuda:"
  echo "$found"
  exit 1
fi
