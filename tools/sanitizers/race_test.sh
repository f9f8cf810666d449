#!/usr/bin/env bash
# ThreadSanitizer reports Weft's own races whoever calls Weft, with the suppressions of its tests.
# Usage: race_test.sh RACE SUPPRESSIONS, built with --config=tsan (tools/test.sh --sanitizers=tsan)
set -uo pipefail
race=$1 suppressions=$2 status=0
export TSAN_OPTIONS=suppressions=$suppressions:halt_on_error=1:exitcode=66
for how in thread pass walk team; do
  log=$("$race" "$how" 2>&1)
  code=$?
  if ((code != 66)) || ! grep -q "data race.*write_without_a_lock" <<<"$log"; then
    echo "--- $how: no race was reported (exit code $code); is it built with --config=tsan?"
    echo "$log"
    status=1
  fi
done
exit $status
