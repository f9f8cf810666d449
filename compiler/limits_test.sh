#!/usr/bin/env bash
# Limits and heuristic numbers stand in one table of their folder (Limits.h), each with its reason.
# A constant elsewhere in these folders that is defined by a number of its own is one that belongs
# there; what follows from other constants may stand where it is used.
# Usage: limits_test.sh FILE, a file in the root of the source tree.
set -euo pipefail
cd "$(dirname "$(readlink -f "$1")")"

folders=(compiler/codegen compiler/schedule backends/cpu/compile backends/cuda/compile)

# No limits: FILE:NAME, and what it is instead.
allowed='
compiler/codegen/ElementEmitter.h:kLanes            lanes are part of what a sum is
compiler/codegen/Schedule.h:kSlots                  the order of reductions, and with it their bits
compiler/codegen/Schedule.h:kReductionBlock         the same
compiler/codegen/Schedule.h:kChain                  the same
compiler/codegen/Schedule.h:kMostChunks             the same
compiler/codegen/RowBodies.cpp:kDrawnVectors        words of a block of random numbers
compiler/codegen/KernelTester.cpp:kGuard            of tests: bytes around each buffer
compiler/schedule/Measured.cpp:kHashDigits          the form of a file
backends/cuda/compile/GpuFunction.cpp:kGlobal       LLVM numbers address spaces so
backends/cuda/compile/GpuFunction.cpp:kShared       the same
backends/cuda/compile/Simulator.cpp:kWarpSize       the GPU that tests simulate
backends/cuda/compile/Simulator.cpp:kStackBytes     the same
'

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
expected=$(sed -n 's/^\([^ ]\+\) .*/\1/p' <<<"$allowed" | sort)
status=0
if unnamed=$(comm -23 <(echo "$found") <(echo "$expected")) && [[ -n $unnamed ]]; then
  echo "numbers that belong into the Limits.h of their folder, with their reasons (or, if they are"
  echo "no limits, into the list of this test):"
  echo "$unnamed"
  status=1
fi
if gone=$(comm -13 <(echo "$found") <(echo "$expected")) && [[ -n $gone ]]; then
  echo "this test names constants that are not there:"
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
constexpr const char *kTriple = "nvptx64";
static constexpr Architecture kTable[] = {{"sm_80", 80}};
CODE
seen=$(echo "$sample" | find_numbers | sed 's/.*://' | tr '\n' ' ')
if [[ $seen != "kOne kTwo kHalf kBraced kPair kFifth " ]]; then
  echo "the search finds $seen"
  status=1
fi
exit $status
