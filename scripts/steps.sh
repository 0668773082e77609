# shellcheck shell=sh disable=SC2034,SC2086
# What demo.sh, test.sh and .ci/run share. Read with ".", from the root of the tree, under set -eu.
#
# A step is one command: it prints its name and its seconds, its output goes to a file in build/logs, and the end of
# that file is printed only if it failed. A terminal shows the last line of it meanwhile.

STEP_LOGS=build/logs
STEP_TAIL=60
FEATURES=enabled

step_log_of() { # NAME
  printf '%s/%s.log\n' "$STEP_LOGS" "$(printf %s "$1" | tr -cs 'A-Za-z0-9\n' -)"
}

show_progress() { # NAME LOG
  while sleep 1 && kill -0 $$ 2>/dev/null; do # $$: the script, which may have been interrupted
    printf '\r== %s: %s\033[K' "$1" "$(tail -n 1 "$2" | tr -d '\r' | cut -c1-60)"
  done
}

step() { # NAME COMMAND...
  step_name=$1
  shift
  step_log=$(step_log_of "$step_name")
  step_began=$(date +%s)
  mkdir -p "$STEP_LOGS"
  printf '== %s: ' "$step_name"
  step_status=0
  step_watcher=
  : >"$step_log"
  if [ -t 1 ]; then
    show_progress "$step_name" "$step_log" &
    step_watcher=$!
  fi
  "$@" >"$step_log" 2>&1 </dev/null || step_status=$?
  if [ -n "$step_watcher" ]; then
    kill "$step_watcher"
    wait "$step_watcher" 2>/dev/null || true
    printf '\r== %s: \033[K' "$step_name"
  fi
  if [ "$step_status" -eq 0 ]; then
    echo "$(($(date +%s) - step_began)) s"
  else
    echo "FAILED after $(($(date +%s) - step_began)) s"
    tail -n "$STEP_TAIL" "$step_log" >&2
    step_failed "$step_name" "exit status $step_status; its whole output: $step_log"
    return 1
  fi
}

step_failed() { # NAME WHY
  echo "$(basename "$0"): step \"$1\" failed ($2)" >&2
}

# Debian and Ubuntu packages: what is there is not touched, and no root is needed if all are there.
install_packages() { # PACKAGE...
  missing=
  if ! command -v dpkg-query >/dev/null; then
    echo "== packages: not a Debian or Ubuntu system, so what is missing has to be installed by hand"
    return 0
  fi
  for package; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) in
      installed) ;;
      *) missing="$missing $package" ;;
    esac
  done
  if [ -z "$missing" ]; then
    return 0
  fi
  if [ "$(id -u)" -eq 0 ]; then
    as_root=
  elif command -v sudo >/dev/null; then
    as_root=sudo
  else
    step_failed packages "neither root nor sudo; ask an administrator to run: apt-get install$missing"
    return 1
  fi
  echo "== packages: installing$missing"
  # A source that cannot be reached need not matter: the installation decides.
  step "apt-get update" $as_root apt-get update -q || true
  step "apt-get install" $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $missing
}

# What building and testing needs. libsubunit-dev: check.pc names it, and not every release of check pulls it in. If they cannot
# be installed, the build leaves out what needs them, and says so in its summary.
install_build_packages() {
  if install_packages build-essential meson ninja-build pkg-config check libsubunit-dev libcjson-dev \
    libdw-dev libunwind8 zlib1g-dev libzstd-dev libmicrohttpd-dev python3 python3-jsonschema; then
    return 0
  fi
  for program in cc meson ninja; do
    if ! command -v $program >/dev/null; then
      step_failed packages "nothing can be built without $program"
      return 1
    fi
  done
  FEATURES=auto
  echo "== packages: going on without; what needs them is left out: see build/logs/configure.log"
}

# What the tests of the page are run in. Not every system has a package of it: without, those tests are skipped.
install_browser() {
  for browser in chromium chromium-browser google-chrome; do
    if command -v $browser >/dev/null; then
      return 0
    fi
  done
  if ! install_packages chromium; then
    echo "== packages: no browser could be installed, so the tests of the page for a browser are skipped"
  fi
}

# Comes before the packages, which would be of no use without. The simulated GPU needs 12.5.
find_cuda_headers() {
  if ! CUDA_INCLUDE=$(scripts/find-cuda.sh 12050); then
    step_failed "CUDA headers" "see above; no package was installed"
    return 1
  fi
}

# Every build has the tool and the tests: without a package it fails here, unless install_build_packages has said that
# something is left out.
configure() { # FOLDER OPTION...
  configure_folder=$1
  shift
  if [ -f "$configure_folder/meson-private/coredata.dat" ]; then
    set -- --reconfigure "$configure_folder" "$@"
  else
    set -- "$configure_folder" "$@"
  fi
  meson setup "-Dtools=$FEATURES" "-Dsymbols=$FEATURES" "-Dtests=$FEATURES" "$@"
}

# A test sends these signals; only env can undo that nohup, or the & of a script, had them ignored.
meson_test() { # FOLDER ARGS...
  meson_test_folder=$1
  meson_test_status=0
  shift
  env --default-signal=HUP,INT,QUIT meson test -C "$meson_test_folder" --no-rebuild --print-errorlogs "$@" ||
    meson_test_status=$?
  scripts/skipped.py "$meson_test_folder"
  return "$meson_test_status"
}
