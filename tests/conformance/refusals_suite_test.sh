#!/usr/bin/env bash
# The suite on a backend that refuses exp, and add in int8: it passes with the table that says so,
# and with no other.
# Usage: refusals_suite_test.sh SUITE, linked with RefusingBackend.cpp
set -uo pipefail
suite=$1
status=0
both="refusing, refusing unclaimed"

# expect CODE TEXT: how the suite ends with the table on standard input, and a text that it prints.
expect() {
  cat >"$TEST_TMPDIR/table"
  # The suite's own report must not become this test's: it lists the failures that are expected.
  env -u XML_OUTPUT_FILE WEFT_REFUSALS="$TEST_TMPDIR/table" "$suite" \
    --gtest_filter='*/refusing_exp:*/refusing_add:*/refusing_sub:*/refusing_unclaimed_add' >"$TEST_TMPDIR/log" 2>&1
  local code=$?
  if ((code != $1)) || ! grep -qF -- "$2" "$TEST_TMPDIR/log"; then
    cat "$TEST_TMPDIR/log"
    echo "--- it ended with $code, not $1, or does not say '$2'; the table:"
    cat "$TEST_TMPDIR/table"
    status=1
  fi
}

expect 0 "add in int8: expected: no bytes" <<END
$both | exp | * | no functions
$both | add | int8 | no bytes
END
# Nothing is expected: what is refused fails, and is printed as a line for the table.
expect 1 "refusing | add | int8 | " <<END
$both | exp | * | no functions
END
expect 1 "refusing | exp | float32 | " <<END
$both | add | int8 | no bytes
$both | exp | float64, int32, int64, bool, bfloat16, float16, int8, int16, uint8 | no functions
END
# A refusal that is no longer one.
expect 1 "sub in int16 is not refused any more" <<END
$both | exp | * | no functions
$both | add | int8 | no bytes
refusing | sub | int16 | no shorts
END
# A table that cannot be read.
expect 1 "line 1: there is no op 'expo'" <<END
$both | expo | * | no functions
END
exit $status
