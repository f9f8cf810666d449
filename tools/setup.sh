#!/usr/bin/env bash
# Installs the Debian 12 packages that Weft is built with, where they are missing. Says what it
# installs; returns at once when nothing is missing.
set -euo pipefail

packages=(
  # the compiler, and LLVM and MLIR, which Weft's own compiler is made of
  clang-22 lld-22 libclang-rt-22-dev llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  # the build
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib git
  # libraries
  libabsl-dev libbenchmark-dev libcli11-dev libdnnl-dev libgloo-dev libgmock-dev libgtest-dev libjpeg62-turbo-dev libpng-dev nlohmann-json3-dev zlib1g-dev
  # what extensions are built with (tools/install.sh), and what the sealed flavour links beside
  # LLVM's archives
  pkg-config libzstd-dev
)

# One query for all: dpkg-query prints a line for each installed package and fails for unknown
# names, which we expect.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

fail() { echo "tools/setup.sh: $1" >&2; exit 1; }
command -v apt-get >/dev/null || fail "these Debian packages are missing, and there is no apt-get to install them: ${missing[*]}"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || fail "these Debian packages are missing; install them as root, since there is no sudo: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "tools/setup.sh: installing ${missing[*]}"
install() { DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be old or absent on a new machine.
if ! { "${as_root[@]}" apt-get update -qq && install; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  fail "apt-get could not install ${missing[*]} (its last lines are above)"
fi
