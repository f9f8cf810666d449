#!/usr/bin/env bash
# Limits and heuristic numbers stand in one table of their folder (Limits.h), each with its reason.
# A constant elsewhere in these folders that is defined by a number of its own is one that belongs
# there; what follows from other constants may stand where it is used.
# Usage: limits_test.sh FILE, a file in the root of the source tree.
set -euo pipefail
cd "$(dirname "$(readlink -f "$1")")"

folders=(compiler/codegen compiler/schedule backends/*/compile)

# No limits: no_limits.txt of a folder has FILE:NAME, and what it is instead.
expected=$(for folder in "${folders[@]}"; do
  [[ ! -e $folder/no_limits.txt ]] || sed -n "s|^\([^ ]\+\) .*|$folder/\1|p" "$folder/no_limits.txt"
done | sort)

# FILE:NAME of each constant whose definition holds a number, in the files given on standard input.
find_numbers() {
  xargs perl -0777 -ne '
    # Without strings, characters and comments.
    s{R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\])*"|\x27(?:\\.|[^\x27\\])\x27|//[^\n]*|/\*.*?\*/}{ }gs;
    while (/\b(?:constexpr|const)\s+[\w:]+\s+(k[A-Z]\w*\s*[={][^;]*);/g) {
      my $definitions = $1;
      while ($definitions =~ /\b(k[A-Z]\w*)\s*[={]((?:(?!,\s*k[A-Z]\w*\s*[={]).)*)/gs) {
        my ($name, $value) = ($1, $2);
        print "$ARGV:$name\n" if $value =~ /(?<![\w.])\.?\d/;
      }
    }'
}

found=$(find "${folders[@]}" \( -name '*.cpp' -o -name '*.h' \) ! -name '*Test.cpp' \
  ! -name Limits.h | sort | find_numbers | sort)
status=0
if unnamed=$(comm -23 <(echo "$found") <(echo "$expected")) && [[ -n $unnamed ]]; then
  echo "numbers that belong into the Limits.h of their folder, with their reasons (or, if they are"
  echo "no limits, into no_limits.txt there):"
  echo "$unnamed"
  status=1
fi
if gone=$(comm -13 <(echo "$found") <(echo "$expected")) && [[ -n $gone ]]; then
  echo "no_limits.txt names constants that are not there:"
  echo "$gone"
  status=1
fi

# That the search sees each kind, and nothing else.
sample=$(mktemp)
trap 'rm -f "$sample"' EXIT
cat >"$sample" <<'CODE'
static constexpr int64_t kOne = 1, kDerived = kOne * kOther, kTwo =
    int64_t(1) << 30; // kThree = 3
inline constexpr double kHalf = .5;
const size_t kBraced{4};
  constexpr ByVector kPair{8, 4}, kFifth = kPair / 2;
static constexpr int64_t kAlias = kLanes;
constexpr llvm::StringLiteral kText = "16";
constexpr char kQuote = '"', kRaw[] = R"(
  const int kFour = 4;)";
constexpr const char *kTriple = "x86_64";
static constexpr Architecture kTable[] = {{"avx2", 256}};
CODE
seen=$(echo "$sample" | find_numbers | sed 's/.*://' | tr '\n' ' ')
if [[ $seen != "kOne kTwo kHalf kBraced kPair kFifth " ]]; then
  echo "the search finds $seen"
  status=1
fi
exit $status
