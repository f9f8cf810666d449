#!/usr/bin/env bash
# run_lit.sh CONFIG [--tool=BINARY ...] [--data=FILE ...] TEST...: runs lit over copies of the
# tests; the report goes where Bazel wants it.
set -euo pipefail
config=$1
shift
suite=$TEST_TMPDIR/suite
mkdir -p "$suite/bin"
cp "$config" "$suite/lit.cfg.py"
tests=()
for argument in "$@"; do
  case $argument in
    --tool=*) ln -sf "$PWD/${argument#--tool=}" "$suite/bin/" ;;
    --data=*) cp -L "${argument#--data=}" "$suite/" ;;
    *) cp -L "$argument" "$suite/" && tests+=("$suite/$(basename "$argument")") ;;
  esac
done
exec /usr/lib/llvm-22/bin/lit -v --xunit-xml-output="${XML_OUTPUT_FILE:-$suite/report.xml}" "${tests[@]}"
