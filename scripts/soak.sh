#!/bin/sh
# Runs random programs against the rules of reuse until it is stopped or something is wrong (test/oracle/run.py):
#
#   scripts/soak.sh              from a seed of the time, without end
#   scripts/soak.sh 5000000      as many programs, rounded up to rounds of 200,000
#   scripts/soak.sh 200000 17    from seed 17 on
#   scripts/soak.sh 200000 17 --late --ordered     other kinds of programs: options of run.py
#   scripts/soak.sh 200000 17 faults               random programs of test/interpose: any call of theirs or of the library
#                                                  fails; `threads`: two threads use memory in the order of streams;
#                                                  `forks`: children beside threads that allocate load a library
#
# What is wrong is made small and printed as C. Each round says from which seed it ran, so that it can be run again.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

round=200000
left=${1:-}
seed=${2:-$(($(date +%s) * 1000000))}
shift $(($# < 2 ? $# : 2)) # what is left are options of run.py
find_cuda_headers
install_build_packages
step "configure" configure build -Ddebug_level=3
step "build" ninja -C build
preload_soak() { # TEST CASE
  GP_SOAK="$seed ${left:-$round}" meson_test build -t 0 "$1" --test-args "$2"
}
case ${1:-} in
  faults) preload_soak preload-faults RandomFaults; exit ;;
  threads) preload_soak preload-ordered Ordered.test_random_programs; exit ;;
  forks) preload_soak preload-life Life.test_children_at_any_time; exit ;;
esac
while [ -z "$left" ] || [ "$left" -gt 0 ]; do
  echo "== $round programs from seed $seed"
  if ! test/oracle/run.py build --programs "$round" --seed "$seed" "$@" >build/logs/soak.txt; then
    cat build/logs/soak.txt
    exit 1
  fi
  grep -E '^(row|all) ' build/logs/soak.txt
  seed=$((seed + 2 * round)) # the rows round up
  left=${left:+$((left - round))}
done
