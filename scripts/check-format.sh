#!/bin/sh
# Names the C files that .clang-format would write otherwise, and fails if there is one; with --fix it rewrites them.
# Versions of clang-format differ in details: 14 is that of Debian 12, with which the tree is formatted.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --fix ]; then
  git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i
  exit 0
fi
if ! found=$(git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror 2>&1); then
  echo "not as .clang-format says (scripts/check-format.sh --fix mends it):" >&2
  echo "$found" | sed -n 's/:[0-9]*:[0-9]*: error:.*//p' | sort -u | grep . >&2 || echo "$found" >&2
  exit 1
fi
