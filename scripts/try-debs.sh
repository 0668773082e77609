#!/bin/sh
# Installs the packages of scripts/make-debs.sh into a fresh Debian, uses them there, and removes them: nothing may be left.
#
#   scripts/try-debs.sh FOLDER [SUITE]    the packages in FOLDER, on bookworm or another SUITE
#
# As root, with debootstrap and a network; it takes about two minutes. The root is in a temporary folder.
set -eu
packages=$(cd "$1" && pwd)
suite=${2:-bookworm}
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.before" "$root.after"' EXIT

inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# What the package manager and the loader keep for themselves is left out.
listing() {
  (cd "$root" && find . -xdev -path ./proc -prune -o -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./var/cache -prune \
    -o -path ./var/lib/apt -prune -o -print | sort)
}

chmod 755 "$root"
debootstrap --variant=minbase "$suite" "$root" >/dev/null
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"
inside apt-get update -q >/dev/null
# What they depend on comes first, so that only they are looked for at the end
inside apt-get install -y -q --no-install-recommends libcjson1 python3 >/dev/null
listing >"$root.before"
inside sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb' >/dev/null
inside gpupool --version
inside sh -c 'LD_PRELOAD=libgpupool.so GPUPOOL_VERBOSE=2 /bin/true' 2>&1
inside env LD_PRELOAD=libgpupool.so python3 -c 'import gpupool; assert gpupool.is_loaded()'
inside gpupool run -- python3 -c 'import gpupool; assert gpupool.is_loaded()' 2>&1
inside python3 -m gpupool config >/dev/null
inside sh -c 'apt-get purge -y -q gpupool libgpupool python3-gpupool' >/dev/null
listing >"$root.after"
if ! diff "$root.before" "$root.after"; then
  echo "try-debs.sh: the lines above were left behind, or lost" >&2
  exit 1
fi
echo "$suite: installed, used and removed; nothing is left"
