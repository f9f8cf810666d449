#!/usr/bin/env bash
# Looks for programs and files that Weft gets wrong: random programs (tests/fuzz), then mutated
# files for each parser.
# Usage: tools/fuzz.sh [--minutes N] [--seed S] [--programs N] [--whole-kernels] [--sizes] [--parsers]
# default: 10 minutes of programs from a seed that it prints. A failing program is reduced and
# printed as C++; the same seed finds it again. --whole-kernels: a kernel that codegen refuses fails,
# too, though the program runs. --sizes: each program at many sizes, and in no other way. --parsers:
# all the time goes to the files' parsers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes="" programs=() parsers=0
while (($#)); do
  case $1 in
  --minutes) minutes=${2:?--minutes wants a number}; shift 2 ;;
  --seed | --programs | --failures) programs+=("$1" "${2:?$1 wants a number}"); shift 2 ;;
  --whole-kernels | --sizes) programs+=("$1"); shift ;;
  --parsers) parsers=1; shift ;;
  *) echo "tools/fuzz.sh: unknown argument $1 (see the top of the script)" >&2; exit 2 ;;
  esac
done
tools/setup.sh

if ((!parsers)); then
  bazel build //tests/fuzz
  [[ -n $minutes || " ${programs[*]-} " == *" --programs "* ]] || minutes=10
  exec bazel-bin/tests/fuzz/fuzz ${minutes:+--minutes "$minutes"} "${programs[@]}"
fi

# With coverage of the parsers' own code, which steers the mutations. The corpus stays between runs,
# crashing inputs lie beside it.
bazel build --config=fuzzer $(bazel query --noshow_progress 'kind(cc_test, //tests/fuzz/parsers:all)')
targets=(bazel-bin/tests/fuzz/parsers/*_fuzzer)
# LLVM's arenas mark what they have not given out, where our objects instantiate them; Debian's
# libMLIR takes from the same ones and does not.
export ASAN_OPTIONS=allow_user_poisoning=0
seconds=$(awk "BEGIN { print int(${minutes:-10} * 60 / ${#targets[@]}) + 1 }")
status=0
folder=${XDG_CACHE_HOME:-$HOME/.cache}/weft-fuzz
for target in "${targets[@]}"; do
  name=$(basename "$target")
  mkdir -p "$folder/$name"
  echo "$name: $seconds s, corpus in $folder/$name"
  "$target" --write_seeds="$folder/$name"
  kept=tests/fuzz/parsers/corpus/${name%_fuzzer}
  [[ -d $kept ]] || kept=""
  "$target" -max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=256 -artifact_prefix="$folder/$name-" -print_final_stats=1 "$folder/$name" ${kept:+"$kept"} || status=1
done
exit $status
