#!/bin/bash
# benchmarks/run.sh SUITE [--peers] [--json FILE] [--threads N] [--filter TEXT] [--busy N] [--device NAME]
# Runs a suite, or all of them, and writes one JSON object a line (to stdout, or appended to FILE); a
# table for people goes to stderr. With --peers, other frameworks are measured beside Weft in the same
# run, taking turns; they live in a Python environment that this script makes. --busy (ops, infer,
# train, decode): each case also beside N processes that never rest. --device (infer, train): a GPU, as
# Weft names it; the peers take what they call it up to the colon.
set -euo pipefail
here=$(realpath "$0")
cd "$(dirname "$here")/.."

suites="overhead ops infer train memory compile decode ranks"
usage() {
  echo "usage: benchmarks/run.sh ${suites// /|}|all [--peers] [--json FILE] [--threads N] [--filter TEXT] [--busy N] [--device NAME]" >&2
  exit 2
}
suite=${1:-}
[ $# -gt 0 ] && shift
peers=0 json="" threads="" filter="" busy=0
while [ $# -gt 0 ]; do
  case $1 in
    --peers) peers=1 ;;
    --json) [ $# -gt 1 ] || usage; json=$(realpath -m "$2"); shift ;;
    --threads) [ $# -gt 1 ] || usage; threads=$2; shift ;;
    --filter) [ $# -gt 1 ] || usage; filter=$2; shift ;;
    --busy) [ $# -gt 1 ] || usage; busy=$2; shift ;;
    --device) [ $# -gt 1 ] || usage; export WEFT_DEVICE=$2 WEFT_PEERS_DEVICE=${2%%:*}; shift ;;
    *) usage ;;
  esac
  shift
done
[[ $suite != *" "* && " $suites all " == *" $suite "* ]] || usage
if [ $suite = all ]; then
  options=(${json:+--json "$json"} ${threads:+--threads "$threads"} --filter "$filter" --busy "$busy")
  [ $peers = 1 ] && options+=(--peers)
  failed=0
  for each in $suites; do
    echo "benchmarks/run.sh: $each" >&2
    "$here" $each "${options[@]}" || { echo "benchmarks/run.sh: $each failed" >&2; failed=1; }
  done
  exit $failed
fi

# Single operators are measured on two threads, then on one.
if [ $suite = ops ]; then counts=${threads:-2 1}; fi
threads=${threads:-2}
export WEFT_NUM_THREADS=$threads OMP_NUM_THREADS=$threads
venv=${WEFT_PEERS_VENV:-.venv-peers} # one that is there already
# PyPI's packages $1, of which Python imports $2.
install() {
  local packages=$1 imports=$2
  $venv/bin/python -c "import $imports" 2>/dev/null && return
  echo "benchmarks/run.sh: installing $packages into $venv" >&2
  [ -x $venv/bin/python ] || python3 -m venv $venv >&2 || return
  $venv/bin/pip install --quiet $packages >&2
}
# The same, without which there are no peers.
need() {
  install "$@" && return
  echo "benchmarks/run.sh: cannot install the peers (python3-venv and access to PyPI are needed)" >&2
  exit 1
}
make_venv() {
  need "torch numpy" "torch, numpy"
}
# The networks that the library's models are measured beside.
make_models() {
  make_venv
  need "torchvision transformers" "torchvision, transformers"
}
# Sets `peers_of_models` to IMPL=COMMAND of each of the kinds $2 (models/cases.py): the script $1 with
# the kind and what follows. What cannot be installed is left out.
find_peers_of_models() {
  local script=$1 kinds=$2 kind name packages
  shift 2
  peers_of_models=()
  make_models
  for kind in $kinds; do
    case $kind in
      onnx) name=onnxruntime packages="onnx onnxruntime" ;;
      ncnn) name=ncnn packages="ncnn pnnx" ;;
      openvino) name=openvino packages="onnx openvino" ;;
      jax) name=jax packages=jax ;;
      *) name=torch-$kind packages="" ;;
    esac
    if [ -n "$packages" ] && ! install "$packages" "${packages// /, }"; then
      echo "benchmarks/run.sh: without $name, since $packages cannot be installed" >&2
      continue
    fi
    peers_of_models+=("$name=$venv/bin/python $script $kind $*")
  done
}

bazel build //benchmarks/... >&2
arguments=()
[ -n "$json" ] && arguments+=(--json "$json")
# Of the suites `infer` and `train`.
models() {
  local contestants=(--contestant "weft=bazel-bin/benchmarks/models/worker $suite")
  [ $suite = infer ] && contestants+=(--contestant "weft-jit=bazel-bin/benchmarks/models/worker infer-jit")
  [ $suite = train ] && contestants+=(--contestant "weft-jit=bazel-bin/benchmarks/models/worker jit")
  # In 16 bits only where the processor has instructions for it: elsewhere PyTorch takes minutes for
  # a step, and nobody trains so.
  local bfloat16=""
  [ $suite = train ] && grep -Eqw "avx512_bf16|amx_bf16|bf16" /proc/cpuinfo && bfloat16=bfloat16
  [ -n "$bfloat16" ] && contestants+=(--contestant "weft-bfloat16=bazel-bin/benchmarks/models/worker bfloat16")
  if [ $peers = 1 ]; then
    local kinds="eager compile $bfloat16 jax" peer
    [ $suite = infer ] && kinds="eager compile onnx openvino ncnn jax"
    find_peers_of_models benchmarks/models/peers.py "$kinds" $suite
    for peer in "${peers_of_models[@]}"; do contestants+=(--contestant "$peer"); done
  fi
  bazel-bin/benchmarks/models/models $suite --threads "$threads" --filter "$filter" --busy "$busy" "${arguments[@]}" "${contestants[@]}"
}
case $suite in
  overhead)
    if [ $peers = 1 ]; then
      make_venv
      arguments+=(--contestant "torch-eager=$venv/bin/python benchmarks/overhead/peers.py")
    fi
    exec bazel-bin/benchmarks/overhead/overhead --threads "$threads" "${arguments[@]}"
    ;;
  infer | train)
    models
    ;;
  compile)
    if [ $peers = 1 ]; then
      find_peers_of_models benchmarks/compile/peers.py "eager compile onnx openvino ncnn jax"
      for peer in "${peers_of_models[@]}"; do arguments+=(--peer "$peer"); done
    fi
    exec bazel-bin/benchmarks/compile/compile --worker bazel-bin/benchmarks/compile/worker --threads "$threads" --filter "$filter" "${arguments[@]}"
    ;;
  ranks)
    # Two processes of one thread, and one process of two: the same global batch.
    contestants=(--contestant "weft-2x1=bazel-bin/benchmarks/ranks/worker tensors 2 1"
                 --contestant "weft-1x2=bazel-bin/benchmarks/ranks/worker tensors 1 2"
                 --contestant "weft-runtime-2x1=bazel-bin/benchmarks/ranks/worker runtime 2 1")
    if [ $peers = 1 ]; then
      make_venv
      contestants+=(--contestant "torch-2x1=$venv/bin/python benchmarks/ranks/peers.py 2 1"
                    --contestant "torch-1x2=$venv/bin/python benchmarks/ranks/peers.py 1 2")
    fi
    exec bazel-bin/benchmarks/ranks/ranks --filter "$filter" "${arguments[@]}" "${contestants[@]}"
    ;;
  memory)
    contestants=(--contestant "weft=bazel-bin/benchmarks/memory/worker training"
                 --contestant "weft-jit=bazel-bin/benchmarks/memory/worker jit"
                 --contestant "weft-half=bazel-bin/benchmarks/memory/worker half"
                 --contestant "weft-half-files=bazel-bin/benchmarks/memory/worker files")
    if [ $peers = 1 ]; then
      make_models
      contestants+=(--contestant "torch-eager=$venv/bin/python benchmarks/memory/peers.py")
    fi
    exec bazel-bin/benchmarks/memory/memory --threads "$threads" --filter "$filter" "${arguments[@]}" "${contestants[@]}"
    ;;
  ops | decode)
    contestants=(--contestant "weft=bazel-bin/benchmarks/$suite/worker weft")
    [ $suite = ops ] && contestants+=(--contestant "limit=bazel-bin/benchmarks/ops/worker limit"
                                      --contestant "onednn=bazel-bin/benchmarks/ops/worker onednn")
    if [ $peers = 1 ]; then
      make_venv
      contestants+=(--contestant "torch-eager=$venv/bin/python benchmarks/$suite/peers.py eager"
                    --contestant "torch-compile=$venv/bin/python benchmarks/$suite/peers.py compile")
    fi
    for count in ${counts:-$threads}; do
      WEFT_NUM_THREADS=$count OMP_NUM_THREADS=$count \
        bazel-bin/benchmarks/$suite/$suite --threads "$count" --filter "$filter" --busy "$busy" "${arguments[@]}" "${contestants[@]}"
    done
    ;;
esac
