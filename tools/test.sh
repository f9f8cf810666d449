#!/usr/bin/env bash
# Sets up the machine where needed, builds Weft, runs every test, and counts test cases (not Bazel targets) from the runners' reports.
# Usage: tools/test.sh [BAZEL TARGET PATTERN ...]     default: everything
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh || exit 1

targets=("${@:-//...}")
if ! tests=$(bazel query --noshow_progress "tests(set(${targets[*]}))" 2>/tmp/weft-query.$$); then
  cat /tmp/weft-query.$$ >&2
  rm -f /tmp/weft-query.$$
  exit 1
fi
rm -f /tmp/weft-query.$$

bazel test --build_tests_only=false --keep_going "${targets[@]}"
status=$?

passed=0 failed=0 skipped=0
for label in $tests; do
  path=${label#//}
  report="bazel-testlogs/${path/://}/test.xml"
  if [[ ! -f $report ]]; then
    echo "no report: $label" >&2
    failed=$((failed + 1))
    continue
  fi
  # A case is a <testcase>; a report without any (a test that writes none of its own gets one from Bazel) counts as one.
  read -r cases bad left < <(awk '
    { text = text $0 "\n" }
    END {
      n = gsub(/<testcase[ >]/, "&", text); f = gsub(/<(failure|error)[ >]/, "&", text); s = gsub(/<skipped|status="notrun"/, "&", text)
      print n, f, s
    }' "$report")
  ((bad > cases)) && bad=$cases
  passed=$((passed + cases - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
done
((status != 0 && failed == 0)) && failed=1

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
