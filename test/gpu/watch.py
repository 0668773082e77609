"""The memory of the device while a program runs, as its driver counts it: by nvidia-smi, from outside of the program.

A program under the pool cannot tell: cudaMemGetInfo calls idle memory of the pool free.
"""

import os
import shutil
import subprocess

EVERY_MS = 20


class Memory:
    """Watches the first device from its making to end(). Without nvidia-smi nothing is known."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "memory")
        self.process = None
        if shutil.which("nvidia-smi"):
            with open(self.path, "wb") as out:
                self.process = subprocess.Popen(
                    ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0", "-lms", str(EVERY_MS)],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)

    def end(self):
        """Bytes: the most that was in use, less what was in use at first; None: not known."""
        if not self.process:
            return None
        self.process.terminate()
        self.process.wait()
        with open(self.path) as file:
            numbers = [int(line) for line in file if line.strip().isdigit()]
        return (max(numbers) - numbers[0]) << 20 if numbers else None
