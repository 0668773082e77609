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
FREES = [Case("free", "thread_ends", MAX_DEFERRED="0"),
         Case("free", "destructor", free_waits=("0",), MAX_DEFERRED="0"),
         Case("free", "locked", "busy", MAX_DEFERRED="0"),
         Case("free", "bystander", MAX_DEFERRED="0")]
FREES += [Case("free", "locked", what, free_waits=("0",), MAX_DEFERRED="0") for what in ("flag", "meet")]
FREES += [Case("free", "capture_begins", work, when, free_waits=free_waits, MAX_DEFERRED="0")
          for work, free_waits in (("wait", ("0",)), ("busy", ("0", "1"))) for when in ("early", "late")]


class Waiting(WaitingCase):
    def test_beside_another_thread(self):
        self.check(THREADS)

    def test_frees_beyond_the_bound(self):
        self.check(FREES)

    def test_collectives(self):
        self.check(DEVICES)


if __name__ == "__main__":
    unittest.main()
