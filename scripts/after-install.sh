#!/bin/sh
# The last step of `meson install`: renews the loader's cache, and says how programs find the library and the module.
#
#   after-install.sh LIBRARY MODULE    as they are installed
#
# With DESTDIR it does nothing: the files are for another place.
set -u
[ -z "${DESTDIR:-}" ] || exit 0
library=$1
module=$2
# The one that users run, which may be another than the one that runs Meson.
python=$(command -v python3)
PATH=$PATH:/usr/sbin:/sbin

if [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then
  ldconfig
fi

# The loader itself tells which file it takes for the name.
found=$(LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=${library##*/} /bin/true 2>/dev/null | sed -n "s|^[[:space:]]*${library##*/} => \(.*\) (0x.*|\1|p")
if [ -n "$found" ] && [ "$found" -ef "$library" ]; then
  echo "A program under the pool: LD_PRELOAD=${library##*/} ./app"
else
  echo "A program under the pool: LD_PRELOAD=$library ./app"
fi

folder=${module%/*}
if [ -n "$python" ] && ! "$python" -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "$folder"; then
  echo "\`import gpupool\` needs PYTHONPATH=$folder"
fi
