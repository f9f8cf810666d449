#!/bin/bash
# The page that report.py makes of a few measurements: losses first, ratios, a plot; a damaged line
# is named.
set -euo pipefail
report=$PWD/$1
cd "$TEST_TMPDIR"
line() {
  echo "{\"suite\":\"$1\",\"case\":\"$2\",\"impl\":\"$3\",\"metric\":\"$4\",\"unit\":\"$5\",\"value\":$6,\"threads\":2,\"batch\":1}"
}
{
  line infer ahead_1 weft time ms 2
  line infer ahead_1 torch-eager time ms 8
  line infer ahead_1 onnxruntime time ms 4
  line infer ahead_1 torch-bfloat16 time ms 1
  line infer behind_1 weft time ms 6
  line infer behind_1 onnxruntime time ms 3
  line infer alone_1 weft time ms 5
  line memory ahead_8 weft peak B 50000000
  line memory ahead_8 torch-eager peak B 100000000
} > run.json
"$report" run.json --out page
expect() {
  grep -qF -- "$1" page/performance.md || { echo "not there: $1"; cat page/performance.md; exit 1; }
}
# Lost: once, by two.
[ "$(grep -c '| infer, time |' page/performance.md)" = 1 ]
expect '| infer, time | behind_1 | 2 | 2.00 | onnxruntime |'
expect 'geometric mean 1.00 of 2 cases, behind in 1.' # of 0.5 and 2
expect '| ahead_1 | 2 | 8 | 4 | 1 | 0.50 |'
expect '| alone_1 | 5 |  |  |  |  |'
expect '| ahead_8 | 50 | 100 | 0.50 |'
expect '(infer-time-2.svg)'
grep -q '>0.25</text>' page/infer-time-2.svg
grep -q '>2.00</text>' page/infer-time-2.svg
echo 'no json' >> run.json
if "$report" run.json --out page 2> error; then echo "a damaged line was taken"; exit 1; fi
grep -q '^run.json:10: ' error
