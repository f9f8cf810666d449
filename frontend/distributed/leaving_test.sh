#!/usr/bin/env bash
# A process that ends in order does not fail the job of the others.
# Usage: leaving_test.sh LEAVING LAUNCH
set -euo pipefail
leaving=$(realpath "$1") launch=$(realpath "$2")
for ranks in 3 4; do
  output=$(timeout 60 "$launch" -n "$ranks" "$leaving") || { echo "$ranks ranks failed: $output"; exit 1; }
  [[ $(grep -c "$((ranks - 1)) ranks are left, value $ranks" <<<"$output") == "$((ranks - 1))" ]] ||
    { echo "$output"; exit 1; }
done
