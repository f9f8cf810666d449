#!/usr/bin/env bash
# The main job, from nothing: sets up the machine where needed, builds, trains a small character GPT
# on a real text, dumps the IR of each phase, compiles the model ahead of time, runs the executable,
# and prints a summary.
# Usage: tools/demo.sh [--ranks N] [--text FILE] [--steps N] [--out DIR] [--resume] ... (all options:
# tools/demo.sh --help)
#        --ranks N (first): so many processes share each batch, and the processors
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh
echo "tools/demo.sh: building (a first build takes some minutes on two cores)"
bazel build --noshow_progress --show_result=0 --ui_event_filters=-info //examples/char_gpt
program=$PWD/bazel-bin/examples/char_gpt/char_gpt
launcher=$PWD/tools/launch.sh
cd "$caller"
if [[ ${1-} == --ranks ]]; then
  ranks=${2:?--ranks wants a number}
  shift 2
  processors=$(nproc)
  export WEFT_NUM_THREADS=${WEFT_NUM_THREADS:-$((processors > ranks ? processors / ranks : 1))}
  exec "$launcher" -n "$ranks" "$program" --distributed "$@"
fi
exec "$program" "$@"
