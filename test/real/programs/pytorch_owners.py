"""The library's snapshots beside PyTorch's own of the same run."""

from program import Case, Program
from programs import pytorch


def cases(place):
    return [Case("stacks " + stacks, ["python3", place.home + "/inside/pytorch_owners.py"], {"GPUPOOL_STACKS": stacks},
                 compare_errors=False) for stacks in ("all", "python")]


PROGRAM = Program(
    title="PyTorch, snapshots",
    version=pytorch.PROGRAM.version,
    packages=pytorch.PROGRAM.packages,
    unpacked=pytorch.PROGRAM.unpacked,
    prepare=pytorch.prepare,
    environment=pytorch.PROGRAM.environment,
    cases=cases,
    note="each segment, figure and line of Python of `torch.cuda.memory._snapshot()` is in the library's snapshot, too",
)
