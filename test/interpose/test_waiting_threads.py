"""Kernels that wait for another thread, or for one that it launches: see waiting_case.py."""

import unittest

from waiting_case import LEFT, MIB, SHORT, Case, WaitingCase

THREADS = [Case("threads", "ladder", what, left, refused=True, **SHORT)
           for what in ("stream", "context", "capture", "all") for left in LEFT]
THREADS += [Case("threads", "miss", what, "deferred", MAX_DEFERRED="0") for what in ("stream", "context", "capture", "all")]
THREADS += [Case("threads", "exported", refused=True, **SHORT),
            Case("threads", "exported", refused=True, LIMIT="1GiB", RESERVE="0", PATIENCE="1")]
THREADS += [Case("threads", "newcomer", left, refused=True, **SHORT) for left in LEFT]
DEVICES = [Case("devices", where, left, str(bytes), refused=True, SIMCUDA_DEVICES="2", **settings)
           for where in ("devices", "streams") for left in LEFT
           for bytes, settings in ((700 * MIB, SHORT), (300 * MIB, dict(SIMCUDA_CAPACITY="1GiB", PATIENCE="1")))]
DEVICES += [Case("devices", where, "deferred", str(2 * MIB), SIMCUDA_DEVICES="2", MAX_DEFERRED="0")
            for where in ("devices", "streams")]


class Waiting(WaitingCase):
    def test_beside_another_thread(self):
        self.check(THREADS)

    def test_collectives(self):
        self.check(DEVICES)


if __name__ == "__main__":
    unittest.main()
