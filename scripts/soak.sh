#!/bin/sh
# Runs random programs against the rules of reuse until it is stopped or something is wrong (test/oracle/run.py):
#
#   scripts/soak.sh              from a seed that nobody ran before, without end
#   scripts/soak.sh 5000000      as many programs, rounded up to rounds of 200,000
#   scripts/soak.sh 200000 17    from seed 17 on
#
# What is wrong is made small and printed as C. Each round says from which seed it ran, so that it can be run again.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

round=200000
left=${1:-}
seed=${2:-$(($(date +%s) * 1000000))}
install_build_packages
find_cuda_headers
step "configure" configure build -Ddebug_level=3
step "build" ninja -C build
while [ -z "$left" ] || [ "$left" -gt 0 ]; do
  echo "== $round programs from seed $seed"
  if ! test/oracle/run.py build --programs "$round" --seed "$seed" >build/logs/soak.txt; then
    cat build/logs/soak.txt
    exit 1
  fi
  grep '^all ' build/logs/soak.txt
  seed=$((seed + 2 * round)) # the rows round up
  left=${left:+$((left - round))}
done
