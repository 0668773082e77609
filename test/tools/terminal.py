"""Terminals for tests."""

import pty
import unittest


def open_terminal():
    """Two descriptors of a new terminal, as pty.openpty(). Skips the test where there are none: in a bare chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        raise unittest.SkipTest("needs a terminal, and /dev/pts is not mounted: %s" % error) from error
