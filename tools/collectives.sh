#!/usr/bin/env bash
# Checks collectives at length, and says what it found: each collective with each dtype and odd
# sizes over each layer for 1 to 8 ranks against loops; the bits of sums in many repeats with random
# delays, which are the same over all layers; and how long ranks take to see each fault. Not part of
# tools/test.sh: it takes half an hour, most of which ranks wait for silent ones.
# Usage: tools/collectives.sh [--ranks N] [--repeats N] [--faults N]
#   --ranks N    up to so many; 8
#   --repeats N  of sums; 1000
#   --faults N   how often each fault; 20; 0 for none
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '6,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
most=8 repeats=1000 faults=20
while (($#)); do
  [[ ${2-} =~ ^[0-9]{1,6}$ ]] || usage
  case $1 in
  --ranks) most=$2 ;;
  --repeats) repeats=$2 ;;
  --faults) faults=$2 ;;
  *) usage ;;
  esac
  shift 2
done

bazel build //runtime/collective:rank_program //runtime/collective:fault_times //frontend/distributed:fault_program || exit 1
program=$PWD/bazel-bin/runtime/collective/rank_program
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
clang++-22 -std=c++20 -O2 -shared -fPIC -I. examples/collective/socket_layer.cpp -o "$work/socket.so" || exit 1

layers=(local gloo socket) status=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v mpirun >/dev/null; then layers+=(mpi); else echo "mpi: left out, there is no mpirun"; fi

# Runs the program's mode on so many ranks over a layer.
run() {
  local layer=$1 ranks=$2
  case $layer in
  local) "$program" --threads "$ranks" local "${@:3}" ;;
  mpi) mpirun --oversubscribe -np "$ranks" "$program" mpi "${@:3}" ;;
  socket) tools/launch.sh -n "$ranks" "$program" --plugin "$work/socket.so" socket "${@:3}" ;;
  *) tools/launch.sh -n "$ranks" "$program" "$layer" "${@:3}" ;;
  esac
}
# Whether all ranks have said what the pattern asks for; else what they said.
check() {
  local ranks=$1 pattern=$2 file=$3
  (($(grep -cE "$pattern" "$file") == ranks)) && return
  status=1
  echo "FAILED"
  cat "$file"
  return 1
}

for layer in "${layers[@]}"; do
  for ((ranks = 1; ranks <= most; ++ranks)); do
    SECONDS=0
    # Many ranks share few processors here: slow is not silent.
    WEFT_COLLECTIVE_TIMEOUT=60 run "$layer" "$ranks" check >"$work/out" 2>&1
    echo -n "$layer, $ranks ranks: every collective, dtype and size: "
    check "$ranks" 'all right$' "$work/out" && echo "all right ($SECONDS s)"
  done
done

for ((ranks = 2; ranks <= most; ranks *= 2)); do
  for layer in "${layers[@]}"; do
    SECONDS=0
    WEFT_COLLECTIVE_TIMEOUT=60 run "$layer" "$ranks" bits "$repeats" >"$work/out" 2>&1
    echo -n "$layer, $ranks ranks: $repeats repeats of each of 3 sums with random delays: "
    check "$ranks" 'bits [0-9a-f]{16}$' "$work/out" || continue
    bits=$(grep -oE 'bits [0-9a-f]{16}$' "$work/out" | sort -u)
    echo "$bits ($SECONDS s)"
    echo "$bits" >>"$work/bits.$ranks"
  done
  if (($(sort -u "$work/bits.$ranks" | wc -l) != 1)); then
    echo "FAILED: the bits of $ranks ranks differ"
    status=1
  fi
done

if ((faults > 0)); then
  WEFT_FAULT_REPEATS=$faults bazel-bin/runtime/collective/fault_times --gtest_brief=1 || status=1
  frontend/distributed/fault_test.sh bazel-bin/frontend/distributed/fault_program tools/launch.sh "$faults" || status=1
fi
((status)) || echo "all right"
exit $status
