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
  line infer behind_1 weft-jit time ms 1.5
  line infer behind_1 onnxruntime time ms 3
  line infer alone_1 weft time ms 5
  line memory ahead_8 weft peak B 50000000
  line memory ahead_8 torch-eager peak B 100000000
  line compile infer/net_1 weft time s 2
  line compile infer/net_1 weft count ops 100
  line compile infer/net_1 torch-eager time s 0.1
  line compile infer/net_1 jax time s 4
  line memory ahead_8 weft "over a step" B 50000000 | sed 's/}$/,"series":[[0,50000000],[0.5,50000000]]}/'
  line memory ahead_8 torch-eager "over a step" B 100000000 | sed 's/}$/,"series":[[0,0],[1,100000000]]}/'
} > run.json
call() {
  echo "{\"name\":\"$1\",\"cat\":\"$2\",\"ph\":\"X\",\"ts\":1,\"dur\":$3,\"args\":{\"types\":\"t\",\"flops\":$4,\"bytes\":$5}}"
}
# At best 50 and 10 GFLOP/s; of the roofs 50 and 100 %.
echo "{\"traceEvents\":[$(call onednn.matmul library 20 1000000 1000),$(call onednn.matmul library 40 1000000 1000),$(call weft_exp kernel 20 200000 400000),
  {\"name\":\"cpu:0 bytes in use\",\"ph\":\"C\",\"ts\":1,\"args\":{\"bytes\":1}}]}" > trace.json
"$report" run.json --out page --about "on a machine" --trace net=trace.json --peaks 100,20
"$report" run.json --out page --name other > /dev/null
[ "$(grep -c 'other/infer-time-2.svg' page/other.md)" = 1 ] && [ -s page/other/infer-time-2.svg ]
expect() {
  grep -qF -- "$1" page/performance.md || { echo "not there: $1"; cat page/performance.md; exit 1; }
}
# Lost: once, by two.
[ "$(grep -c '| infer, time |' page/performance.md)" = 1 ]
expect '| infer, time | behind_1 | 2 | 2.00 | onnxruntime | weft |'
expect 'weft / best peer: geometric mean 1.00 of 2 cases, behind in 1.' # of 0.5 and 2
expect 'weft-jit / best peer: geometric mean 0.50 of 1 cases, behind in 0.'
expect '| ahead_1 | 2 | 8 | 4 | 1 |  | 0.50 |  |'
expect '| behind_1 | 6 |  | 3 |  | 1.5 | 2.00 | 0.50 |'
expect '| alone_1 | 5 |  |  |  |  |  |  |'
expect '| ahead_8 | 50 | 100 | 0.50 |'
expect '| 75 % | 50 % | onednn.matmul |'
expect '| 25 % | 100 % | weft_exp |'
expect '(performance/roofline-net.svg)'
grep -q '<circle .*<title>weft_exp</title>' page/performance/roofline-net.svg
expect '(performance/infer-time-2.svg)'
expect 'on a machine'
# What compiles nothing is not what Weft is held against.
expect '| infer/net_1 | 2 | 0.1 | 4 | 0.50 |'
expect '(performance/compile-by-ops-2.svg)'
grep -q '<circle .*<title>jax: infer/net_1</title>' page/performance/compile-by-ops-2.svg
# Of two steps, of half a second and one: level at half of the most, and from nothing to it.
expect '(performance/memory-over-a-step-2.svg)'
[ "$(grep -c 'over a step in' page/performance.md)" = 0 ]
grep -q '>ahead_8: 100 MB, 1 s<' page/performance/memory-over-a-step-2.svg
grep -q 'points="10.0,145.0 115.0,145.0".*<title>weft<' page/performance/memory-over-a-step-2.svg
grep -q 'points="10.0,210.0 220.0,80.0".*<title>torch-eager<' page/performance/memory-over-a-step-2.svg
grep -q '>0.25</text>' page/performance/infer-time-2.svg
grep -q '>0.50</text>' page/performance/infer-time-2.svg
if "$report" run.json --out page --trace net=trace.json 2> error; then echo "no peaks were taken"; exit 1; fi
grep -q 'weft-prof TRACE prints' error
echo 'no json' >> run.json
if "$report" run.json --out page 2> error; then echo "a damaged line was taken"; exit 1; fi
grep -q '^run.json:17: ' error
