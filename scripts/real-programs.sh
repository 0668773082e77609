#!/bin/sh
# Runs real programs on the simulated GPU, without the library and with each type of it: real-programs.sh FOLDER [BUILD]
#
# FOLDER (2.5 GB) gets a Debian 13 with them, once: 0.6 GB are downloaded. The programs take some ten minutes. It needs root,
# debootstrap, a C compiler and binutils. MIRROR names a mirror of Debian. BUILD (build) is built with the simulated GPU.
# Prints program, version, verdict, reason; the verdict is "as without" if output and exit status are, and the simulator has
# found no wrong access. Status 1: something was not; 77: no PyTorch could be installed.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
build=${2:-build}
root=$folder/root
libraries=/usr/lib/x86_64-linux-gnu

# What PyTorch needs but NVIDIA's libraries, in the place of which stand_ins.py puts its own
needs="python3 python3-numpy python3-filelock python3-fsspec python3-jinja2 python3-networkx python3-packaging
  python3-sympy python3-typing-extensions python3-yaml libblas3 liblapack3 libcpp-httplib0.18 libcpuinfo0 libdnnl3.6
  libfmt10 libgomp1 libhiredis1.1.0 libnuma1 libonnx1t64 libprotobuf32t64 libpthreadpool0 libsleef3 libuv1t64 libvulkan1
  libxnnpack0.20241108 libz3-4 libzstd1 zlib1g"
unpacked="libtorch-cuda-2.6 python3-torch-cuda libgloo-cuda-0 libtensorpipe-cuda-0"

# The mounts end with the command.
# shellcheck disable=SC2016
inside() { # COMMAND...
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" "$@"
}

# shellcheck disable=SC2016,SC2046,SC2086
install_all() {
  debootstrap --variant=minbase --components=main,contrib,non-free,non-free-firmware trixie "$root" ${MIRROR:+"$MIRROR"} &&
    inside env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $needs &&
    inside sh -ec 'mkdir -p /packages; cd /packages; apt-get download "$@"; for deb in *.deb; do dpkg-deb -x "$deb" /; done' \
      sh $unpacked &&
    rm -r "$root/packages" &&
    python3 test/real/stand_ins.py "$root/stand-ins" "$root$libraries"/libtorch_*.so.2.6.0 "$root$libraries/libc10_cuda.so.2.6.0" \
      $(find "$root/usr/lib" -name 'libgloo*.so.0' -o -name 'libtensorpipe_cuda.so.0' -o -name 'libcaffe2_nvrtc.so') &&
    touch "$folder/installed"
}

if [ ! -e "$folder/installed" ]; then
  echo "== installing, see $folder/install.log"
  install_all >"$folder/install.log" 2>&1 || { tail -n 5 "$folder/install.log" >&2; exit 77; }
fi
mkdir -p "$root/gpupool"
cp "$build/test/sim/libcuda.so.1" "$build/test/sim/libcudart.so.12" "$build/interpose/libgpupool.so" test/real/*.py "$root/gpupool"

run() { # NAME CASE [SETTING=VALUE...]: what it printed, and its status, in NAME.out
  name=$1
  what=$2
  shift 2
  status=0
  inside env HOME=/root OMP_NUM_THREADS=1 LD_LIBRARY_PATH=/gpupool:/stand-ins SIMCUDA_STATS="/gpupool/$name.stats" "$@" \
    timeout 300 python3 "/gpupool/pytorch.py" "$what" >"$root/gpupool/$name.out" 2>"$root/gpupool/$name.err" || status=$?
  echo "exit status $status" >>"$root/gpupool/$name.out"
}

judge() { # NAME CASE LABEL: beside plain.out
  reason=
  cmp -s "$root/gpupool/plain.out" "$root/gpupool/$1.out" || reason="$(tail -n 1 "$root/gpupool/$1.out"), $(tail -n 1 "$root/gpupool/$1.err")"
  grep -q '"violations": 0' "$root/gpupool/$1.stats" && grep -q '"corrupt_stamps": 0' "$root/gpupool/$1.stats" ||
    reason="$reason wrong accesses, see $root/gpupool/$1.stats"
  if [ -z "$reason" ] && ! grep -q '^exit status 0' "$root/gpupool/plain.out"; then
    printf '%-44s %-10s %-10s %s\n' "$2, $3" "$version" "as without" "$(tail -n 1 "$root/gpupool/plain.err" | cut -c1-90)"
  elif [ -z "$reason" ]; then
    printf '%-44s %-10s %s\n' "$2, $3" "$version" "as without"
  else
    printf '%-44s %-10s %-10s %s\n' "$2, $3" "$version" different "$reason"
    failed=1
  fi
}

version=$(inside env LD_LIBRARY_PATH=/gpupool:/stand-ins python3 -c 'import torch; print(torch.__version__.split("+")[0])')
failed=0
for setting in "" PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_NO_CUDA_MEMORY_CACHING=1; do
  for case in train streams pinned graph pool; do
    run plain $case ${setting:+"$setting"}
    for type in round naive segment vmm unpooled; do
      run $type $case ${setting:+"$setting"} LD_PRELOAD=/gpupool/libgpupool.so GPUPOOL_TYPE=$type GPUPOOL_SNAPSHOT_AT=none
      judge $type "PyTorch $case${setting:+ ${setting#*_CUDA_}}" $type
    done
  done
done
exit $failed
