#!/usr/bin/env bash
# Sets up the machine where needed, builds Weft, runs every test, and counts test cases (not Bazel
# targets) from the runners' reports.
# Usage: tools/test.sh [BAZEL TARGET PATTERN ...]                  default: everything
#        tools/test.sh --sanitizers[=LIST] [BAZEL TARGET PATTERN ...] LIST: asan (AddressSanitizer,
#        LeakSanitizer and UndefinedBehaviorSanitizer
#                                                                  in one build), tsan
#                                                                  (ThreadSanitizer); default:
#                                                                  asan,tsan and what runs our code
#        tools/test.sh --device=cpu:1 [BAZEL TARGET PATTERN ...]  with all tensors on that device;
#                                                                  default: tests/programs
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1-} == --sanitizers* ]]; then
  list=asan,tsan
  [[ $1 == *=* ]] && list=${1#*=}
  shift
  # Not the compiler's own tests, which spend their time in LLVM (.bazelrc says what is
  # instrumented).
  targets=("$@")
  ((${#targets[@]})) ||
    targets=(//runtime/... //backends/... //frontend/... //tests/programs:faults_test //tests/programs:training_test //tests/fuzz/...)
  status=0
  for sanitizer in ${list//,/ }; do
    [[ $sanitizer == asan || $sanitizer == tsan ]] || { echo "tools/test.sh: no sanitizer '$sanitizer'; there are asan and tsan" >&2; exit 2; }
  done
  for sanitizer in ${list//,/ }; do
    echo "--- $sanitizer"
    more=()
    # That its suppressions hide nothing of ours.
    [[ $sanitizer == tsan ]] && more=(//tools/sanitizers:race_test)
    WEFT_SANITIZER=$sanitizer "$0" "${targets[@]}" "${more[@]}" || status=1
  done
  exit $status
fi
options=()
if [[ ${1-} == --device=* ]]; then
  device=${1#*=}
  shift
  (($#)) || set -- //tests/programs/...
  options=(--test_env=WEFT_DEVICE="$device")
  [[ $device == cpu:* ]] && options+=(--test_env=WEFT_CPU_DEVICES="${device#cpu:}")
fi
tools/setup.sh || exit 1

# Random programs are new with each change, and the same in each run of one tree: what passed here
# passes elsewhere, and a failure comes again. tools/fuzz.sh draws without end.
if [[ -z ${WEFT_FUZZ_SEED-} ]] && tree=$(git rev-parse 'HEAD^{tree}' 2>/dev/null); then
  export WEFT_FUZZ_SEED=$((1000000 + 0x${tree:0:13}))
fi
# So is the third of conformance that a run takes where a third will do.
export WEFT_CONFORMANCE=${WEFT_CONFORMANCE-$((${WEFT_FUZZ_SEED-0} % 3))}

if [[ -n ${WEFT_SANITIZER-} ]]; then
  # A report ends the test, also where the test would go on. WEFT_FUZZ_PROGRAMS: a tenth of the
  # random programs, which take ten times as long. ignore_noninstrumented_modules: what MLIR, LLVM
  # and oneDNN do to memory of their own is ordered by atomics that ThreadSanitizer does not see.
  options+=(--config="$WEFT_SANITIZER"
    --test_env=ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
    --test_env=LSAN_OPTIONS=suppressions="$PWD/tools/sanitizers/lsan.supp":print_suppressions=0
    --test_env=UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    --test_env=TSAN_OPTIONS=suppressions="$PWD/tools/sanitizers/tsan.supp":halt_on_error=1:ignore_noninstrumented_modules=1
    --test_env=WEFT_FUZZ_PROGRAMS=200
    --test_env=WEFT_SANITIZER="$WEFT_SANITIZER"
    --test_timeout=900,1800,3600,7200)
fi

targets=("${@:-//...}") wide=() named=()
[[ ${WEFT_SANITIZER-} == tsan ]] && options+=(--test_tag_filters=-no_tsan)
# A pattern like //... leaves out tests that are tagged manual, a label does not.
for pattern in "${targets[@]}"; do
  [[ $pattern == *... || $pattern == *:all || $pattern == *:\* ]] && wide+=("$pattern") || named+=("$pattern")
done
wide="tests(set(${wide[*]-}))"
query="tests(set(${named[*]-})) union ($wide except attr(tags, manual, $wide))"
[[ ${WEFT_SANITIZER-} == tsan ]] && query="($query) except attr(tags, no_tsan, $query)"
if ! tests=$(bazel query --noshow_progress "$query" 2>/tmp/weft-query.$$); then
  cat /tmp/weft-query.$$ >&2
  rm -f /tmp/weft-query.$$
  exit 1
fi
rm -f /tmp/weft-query.$$

bazel test --build_tests_only=false --keep_going "${options[@]}" "${targets[@]}"
status=$?

passed=0 failed=0 skipped=0
for label in $tests; do
  path=${label#//}
  # A test that runs in shards has a report for each.
  reports=()
  for report in "bazel-testlogs/${path/://}"/{test.xml,shard_*_of_*/test.xml}; do
    [[ -f $report ]] && reports+=("$report")
  done
  if ((${#reports[@]} == 0)); then
    echo "no report: $label" >&2
    failed=$((failed + 1))
    continue
  fi
  # A case is a <testcase>; a report without any (a test that writes none of its own gets one from
  # Bazel) counts as one.
  read -r cases bad left < <(cat "${reports[@]}" | awk '
    { text = text $0 "\n" }
    END {
      n = gsub(/<testcase[ >]/, "&", text); f = gsub(/<(failure|error)[ >]/, "&", text); s = gsub(/<skipped|status="notrun"/, "&", text)
      print n, f, s
    }')
  ((bad > cases)) && bad=$cases
  passed=$((passed + cases - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
done
((status != 0 && failed == 0)) && failed=1

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
