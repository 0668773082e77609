"""The library's snapshots beside PyTorch's own of the same run."""

from program import Case, Program
from programs import pytorch


def cases(place):
    command = ["python3", place.home + "/inside/pytorch_owners.py"]
    return [Case("own, GPUPOOL_STACKS=all", command, {"GPUPOOL_STACKS": "all"}, compare_errors=False),
            Case("own, GPUPOOL_STACKS=python", command, {"GPUPOOL_STACKS": "python"}, compare_errors=False),
            Case("expandable", command, pytorch.ALLOCATORS["expandable"], compare_errors=False)]


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
