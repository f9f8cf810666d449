#!/usr/bin/env bash
# No list of ops stands beside the records: an isa<> of more than three ops of weft in compiler/ or
# backends/ is one that a new op would have to be added to. What such a list asks belongs into the
# record: a kind, a cost, the index statement.
# Usage: op_lists_test.sh FILE, a file in the root of the source tree.
set -euo pipefail
cd "$(dirname "$(readlink -f "$1")")"

# Of each such list, in the files given on standard input: file, and how many ops.
find_lists() {
  xargs perl -0777 -ne '
    while (/\bisa(?:_and_nonnull|_and_present)?<([^<>;]*?)>\s*\(/g) {
      my @ops = grep { /\bir::\w+Op\b/ } split /,/, $1;
      print "$ARGV: @{[scalar @ops]} ops: @{[join q{,}, map { s/\s+//gr } @ops]}\n" if @ops > 3;
    }'
}

found=$(find compiler backends \( -name '*.cpp' -o -name '*.h' \) ! -name '*Test.cpp' | sort | find_lists)
if [[ -n $found ]]; then
  echo "lists of ops by hand; ask the record (kind, cost, index statement) instead:"
  echo "$found"
  exit 1
fi

# That the search sees one.
sample=$(mktemp)
trap 'rm -f "$sample"' EXIT
echo 'return isa<ir::AddOp, ir::SubOp,
  ir::MulOp, ir::DivOp>(op);' >"$sample"
[[ $(echo "$sample" | find_lists) == *"4 ops: ir::AddOp,ir::SubOp,ir::MulOp,ir::DivOp"* ]] || {
  echo "the search finds no list where there is one"
  exit 1
}
