#!/usr/bin/env bash
# ThreadSanitizer reports Weft's own races whoever calls Weft, with the suppressions of its tests.
# Usage: race_test.sh RACE SUPPRESSIONS, built with --config=tsan (tools/test.sh --sanitizers=tsan)
set -uo pipefail
race=$1 suppressions=$2 status=0
export TSAN_OPTIONS=suppressions=$suppressions:halt_on_error=1:exitcode=66
# ThreadSanitizer misses the race within a pass in about half of its runs. A suppression would hide
# it in all of them.
runs=12
for how in thread pass walk team; do
  for ((run = 1; run <= runs; ++run)); do
    log=$("$race" "$how" 2>&1)
    code=$?
    ((code == 66)) && grep -q "data race.*write_without_a_lock" <<<"$log" && continue 2
  done
  echo "--- $how: no race was reported in $runs runs (exit code $code): built with --config=tsan?"
  echo "$log"
  status=1
done
exit $status
