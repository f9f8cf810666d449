#!/usr/bin/env bash
# What CONTRIBUTING.md says of a unary op, measured: a patch adds one to a copy of the sources, the
# difference is counted, and the generators make the rest of it from the record. The functions that
# the record holds as text are compiled, too; no more of Weft is, which would take long.
# Usage: unary_op_test.sh CONTRIBUTING.md PATCH OPGEN DOCS SOURCE...
#   DOCS: docs/ops.md; SOURCES: the records, and what their generated C++ includes
set -euo pipefail
recipes=$(realpath "$1") patch=$(realpath "$2") opgen=$(realpath "$3") docs=$4
shift 4
tablegen=/usr/lib/llvm-22/bin include=/usr/lib/llvm-22/include records=dialects/weft/ir
tree=$TEST_TMPDIR/tree
mkdir -p "$tree"
cp -L --parents "$docs" "$@" "$tree"
cd "$tree"
chmod -R u+w .
fail() { echo "$1"; exit 1; }

dump() { "$tablegen/llvm-tblgen" --dump-json -I "$include" -I . "$records/Records.td" -o records.json; }
dump
"$opgen" records.json docs >docs.before
"$opgen" records.json frontend >frontend.before
"$opgen" records.json table >table.before
cmp docs.before "$docs" || fail "$docs is not what the records give: bazel run //tools/opgen:update_docs"

# What a person writes. A repository of its own, so that git looks at no other.
git init -q .
git add -A
git apply "$patch" || fail "$patch no longer fits: make it again"
read -r files added removed < <(git diff --numstat -- . | awk '{ ++files; added += $1; removed += $2 } END { print files, added, removed }')
((removed == 0)) || fail "the patch takes $removed lines away"
claim="$added lines in $files file"
grep -qF "$claim" "$recipes" || fail "a unary op takes $claim; CONTRIBUTING.md says otherwise"

# What is made of it: the frontend's function, the tests' row, the page of the docs.
dump
"$opgen" records.json docs >docs.after
"$opgen" records.json frontend >frontend.after
"$opgen" records.json table >table.after
# added WHAT TEXT: one more row, of this text.
added() {
  local rows
  rows=$(diff "$1.before" "$1.after" | grep '^[<>]' || true)
  [[ $rows == "> $2"* && $(wc -l <<<"$rows") == 1 ]] || fail "expected the row $2 in what opgen makes ($1), and no other change:
$rows"
}
added frontend 'WEFT_UNARY(gaussian, Gaussian, floating, '
added table 'WEFT_OP("gaussian", GaussianOp, Elementwise, "floating", true, 4, {-9, 9})'
page=$(diff docs.before docs.after || true)
grep -q '^> ### `weft.gaussian`' <<<"$page" || fail "opgen writes no page of weft.gaussian"
! grep '^<' <<<"$page" || fail "the page of another op changed"

# The verifier, the reference, the scalar code, the derivative and the lowering are C++ that the
# record gives; the headers are Weft's own.
generate() { "$tablegen/mlir-tblgen" "${@:3}" -I "$include" -I . "$records/$1" -o "$records/$2"; }
only=(-op-include-regex='weft\.gaussian')
generate WeftOps.td WeftOps.h.inc -gen-op-decls "${only[@]}"
generate WeftOps.td WeftOps.cpp.inc -gen-op-defs "${only[@]}"
generate WeftOps.td WeftDialect.h.inc -gen-dialect-decls -dialect=weft
generate WeftOps.td WeftAttributes.h.inc -gen-attrdef-decls -attrdefs-dialect=weft
generate WeftOps.td WeftEnums.h.inc -gen-enum-decls
generate WeftInterfaces.td WeftInterfaces.h.inc -gen-op-interface-decls
for function in evaluate emitScalar differentiate lowerToLinalg fold; do
  grep -q "GaussianOp::$function(" "$records/WeftOps.cpp.inc" || fail "the record gives no $function"
done
clang++-22 -std=c++20 -fsyntax-only -w -I . -isystem "$include" "$records/WeftOps.cpp"
