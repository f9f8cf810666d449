#!/usr/bin/env bash
# Predicts step time and memory of a program on 8 to 4,096 ranks: runs it on 2 and on 4 ranks of
# this machine, measures what exchanges cost between them, and shows how far the prediction is off.
# Usage: tools/scale.sh [OPTION ...] [-- COMMAND]
#   COMMAND   of a rank, a line of shell; $RANKS is their number. It trains some 20 steps. Default:
#             the character GPT with 8 windows a rank
#   OPTION    of weft-scale predict: --gbit 25 --latency-us 20 --per-machine 8 --bucket-mb 4 --ring
set -euo pipefail
options=()
while (($#)) && [[ $1 != -- ]]; do
  [[ $1 != --help && $1 != -h ]] || { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit; }
  options+=("$1")
  shift
done
(($#)) && shift
command=$*
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bazel build --noshow_progress --show_result=0 --ui_event_filters=-info //tools:weft-scale
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z $command ]]; then
  bazel build --noshow_progress --show_result=0 --ui_event_filters=-info //examples/char_gpt
  command="bazel-bin/examples/char_gpt/char_gpt --distributed --train-only --batch \$((8 * RANKS)) --steps 30 --out $work/run"
fi
processors=$(env -u OMP_NUM_THREADS nproc)
export WEFT_NUM_THREADS=${WEFT_NUM_THREADS:-1} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
runs=()
for ranks in 2 4; do
  echo "tools/scale.sh: $ranks ranks" >&2
  tools/launch.sh -n $ranks bazel-bin/tools/weft-scale measure >"$work/samples.$ranks"
  RANKS=$ranks WEFT_EXPLAIN=1 tools/launch.sh -n $ranks bash -c "$command" >"$work/out.$ranks" 2>"$work/explain.$ranks" ||
    { tail -n 20 "$work/explain.$ranks" >&2; exit 1; }
  runs+=(--run "$ranks=$work/samples.$ranks,$work/explain.$ranks")
done
bazel-bin/tools/weft-scale predict --processors "$processors" --threads "$WEFT_NUM_THREADS" "${runs[@]}" "${options[@]}"
