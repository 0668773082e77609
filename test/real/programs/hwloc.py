"""hwloc of Debian with its CUDA plugin, which asks the runtime for devices."""

from program import Case, Program

PROGRAM = Program(
    title="hwloc",
    version=["dpkg-query", "-W", "-f", "${Version}", "hwloc-nox"],
    packages="hwloc-nox libhwloc15".split(),
    unpacked=["libhwloc-contrib-plugins"],
    cases=[Case("devices", ["lstopo-no-graphics", "--of", "console", "--only", "osdev"], {"SIMCUDA_DEVICES": "2"}),
           Case("their attributes", ["lstopo-no-graphics", "--of", "xml", "-"], {"SIMCUDA_DEVICES": "2"}),
           Case("a device's place", ["hwloc-calc", "--intersect", "core", "os=cuda0"])],
    note="asks for no memory",
)
