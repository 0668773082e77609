"""Open MPI and UCX of Debian, where their build reaches libcuda."""

from program import Missing, Program


def prepare(place):
    _, parts = place.run(["ompi_info", "--parsable"])
    _, modules = place.run(["sh", "-c", "ucx_info -b; ls /usr/lib/*/ucx"])
    if "accelerator:cuda" in parts or "libuct_cuda" in modules:
        raise Missing("Open MPI or UCX of this Debian is built with CUDA: no case has been written for them")
    raise Missing("Open MPI and UCX of this Debian are built without CUDA: ompi_info has no accelerator cuda, ucx_info no module cuda")


PROGRAM = Program(title="Open MPI and UCX", version=["true"], packages="openmpi-bin ucx-utils".split(), prepare=prepare, cases=[])
