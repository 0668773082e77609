"""What a Python program may ask of libgpupool.so, the pool for GPU memory that it is run under.

    LD_PRELOAD=libgpupool.so python3 train.py

    import gpupool
    print(gpupool.memory_summary())

It is for any program that uses CUDA, whatever by: PyTorch, CuPy, ctypes. `device` is an index, or None for the current
one. Sizes are bytes. Every function raises NotLoadedError in a program that runs without the library, and InactiveError
where the library does nothing: with GPUPOOL_DISABLE=1, in children of fork(), and as long as no CUDA driver is loaded.
Both, and all other errors of this module, are a GpupoolError. Threads may call them at any time. gpupool.h says more.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile

__all__ = ["GpupoolError", "InactiveError", "NotLoadedError", "dump_snapshot", "empty_cache", "gpu_memory_info", "is_loaded", "mark",
           "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "memory_allocated", "memory_cached",
           "memory_reserved", "memory_stats", "memory_summary", "profile_memory", "record_memory_history", "release", "reset_memory_stats",
           "reset_peak_memory_stats", "retain", "set_limit", "set_memory_debug"]

_OK, _NOT_LOADED, _INACTIVE, _INVALID, _UNKNOWN, _FAILED = range(6)
_NO_LIMIT = 2**64 - 1
_PATH_BYTES = 4096
_RECORDINGS = {None: 0, False: 0, "off": 0, "state": 1, "all": 2, True: 2}


class GpupoolError(RuntimeError):
    """The library could not do what was asked."""


class NotLoadedError(GpupoolError):
    """The program runs without libgpupool.so, or with one that is older than the function."""


class InactiveError(GpupoolError):
    """The library does nothing in this process, or not yet."""


_MESSAGES = {
    _INVALID: "an argument is not valid",
    _UNKNOWN: "there is no such thing",
    _FAILED: "the system or the driver refused",
}
_PROCESS = ctypes.CDLL(None, use_errno=True)  # whatever is loaded into it, the library if it was preloaded


def _function(name, result, *arguments):
    try:
        function = getattr(_PROCESS, "gpupool_api_" + name)
    except AttributeError:
        raise NotLoadedError('%s: this program runs without libgpupool.so; start it with LD_PRELOAD="$(gpupool path)"' % name) from None
    function.restype = result
    function.argtypes = arguments
    return function


def _check(name, result):
    if result == _OK:
        return
    if result == _NOT_LOADED:
        raise NotLoadedError("%s: libgpupool.so was opened, but not preloaded; start the program with LD_PRELOAD=libgpupool.so" % name)
    if result == _INACTIVE:
        raise InactiveError("%s: the library does nothing in this process, or nothing yet: no CUDA driver is loaded" % name)
    raise GpupoolError("%s: %s" % (name, _MESSAGES.get(result, "error %d" % result)))


def _call(name, types, *arguments):
    _check(name, _function(name, ctypes.c_int, *types)(*arguments))


def _int(value):
    """For a parameter that is an int in C: ctypes would cut a larger number, down to a valid one; -2 is an invalid one everywhere."""
    value = int(value)
    return value if -2**31 <= value < 2**31 else -2


def _index(device):
    return -1 if device is None else _int(device)


def _text(name, device):
    """Of a function that fills a buffer as snprintf does."""
    function = _function(name, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
    _statistic(device, "segment")  # says what is wrong, if something is
    capacity = function(_index(device), None, 0) + 256
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        length = function(_index(device), buffer, capacity)
        if length < capacity:
            return buffer.value.decode()
        capacity = length + 256


def _statistic(device, name):
    value = ctypes.c_uint64()
    _call("statistic", (ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)), _index(device), name.encode(), ctypes.byref(value))
    return value.value


def is_loaded():
    """Whether the program runs under the library. Never raises."""
    try:
        return _function("version", ctypes.c_char_p)() is not None
    except NotLoadedError:
        return False


def memory_allocated(device=None):
    """Bytes of the blocks that the program holds, as the pool rounds them."""
    return _statistic(device, "allocated_bytes.all.current")


def memory_cached(device=None):
    """Bytes that the pool keeps, ready to be handed out."""
    return _statistic(device, "cached_bytes.all.current")


def memory_reserved(device=None):
    """Bytes that the pool holds from the driver."""
    return _statistic(device, "reserved_bytes.all.current")


def max_memory_allocated(device=None):
    """The most that memory_allocated has been, since the start or the last reset."""
    return _statistic(device, "allocated_bytes.all.peak")


def max_memory_cached(device=None):
    """The most that memory_cached has been, since the start or the last reset."""
    return _statistic(device, "cached_bytes.all.peak")


def max_memory_reserved(device=None):
    """The most that memory_reserved has been, since the start or the last reset."""
    return _statistic(device, "reserved_bytes.all.peak")


def memory_stats(device=None):
    """All statistics as a dict: PyTorch's dotted names ("allocated_bytes.all.peak"), plain ones ("allocated_bytes",
    "num_cache_hits") and ratios from 0 to 1 ("cache_hit_rate", "efficiency", "fragmentation"). doc/api.md lists them."""
    return json.loads(_text("memory_stats", device))


def memory_summary(device=None):
    """The same as a table to print."""
    return _text("memory_summary", device)


def gpu_memory_info(device=None):
    """(free, total) as cudaMemGetInfo tells the program: memory that the pool keeps is free, and limits hold."""
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    pointer = ctypes.POINTER(ctypes.c_uint64)
    _call("memory_info", (ctypes.c_int, pointer, pointer), _index(device), ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def empty_cache():
    """Gives what the pool keeps back to the driver: now where a device has no work, else later. Returns the bytes that went now."""
    given = ctypes.c_uint64()
    _call("empty_cache", (ctypes.POINTER(ctypes.c_uint64),), ctypes.byref(given))
    return given.value


def reset_peak_memory_stats(device=None):
    """The peaks begin anew at what is there now, for snapshots, too."""
    _call("reset_peaks", (ctypes.c_int,), _index(device))


def reset_memory_stats(device=None):
    """The same, and counts begin anew for the functions of this module."""
    _call("reset_stats", (ctypes.c_int,), _index(device))


def set_limit(size, device=None):
    """The process may hold so many bytes of the device; None: as many as there are."""
    limit = _NO_LIMIT if size is None else int(size)
    if not 0 < limit <= _NO_LIMIT:
        raise ValueError("size is %r; a limit is a positive number of bytes, or None" % (size,))
    _call("set_limit", (ctypes.c_int, ctypes.c_uint64), _index(device), limit)


def set_memory_debug(enabled=True):
    """True: the library tells on stderr, or in GPUPOOL_LOG, what it does (GPUPOOL_VERBOSE=2); False: errors only. Or a number, 0 to 2."""
    level = 2 if enabled is True else _int(enabled)
    _call("set_verbose", (ctypes.c_int,), level)


def record_memory_history(enabled="all"):
    """What is recorded from now on: "all" (or True), "state" (which blocks are live, no events), or None (or False): nothing."""
    if enabled not in _RECORDINGS:
        raise ValueError("enabled is %r; accepted: \"all\", \"state\", None" % (enabled,))
    _call("set_recording", (ctypes.c_int,), _RECORDINGS[enabled])


def dump_snapshot(filename=None):
    """Writes a snapshot and returns the name of its file; None: a name made of GPUPOOL_OUTPUT. Nothing is overwritten: ".1" and
    so on is appended. Raises OSError if it cannot be written."""
    path = ctypes.create_string_buffer(_PATH_BYTES)
    function = _function("snapshot", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    ctypes.set_errno(0)
    result = function(None if filename is None else os.fsencode(filename), path, _PATH_BYTES)
    if result == _FAILED:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), filename)
    _check("snapshot", result)
    return os.fsdecode(path.value)


def mark(name):
    """Names this moment in snapshots."""
    _call("mark", (ctypes.c_char_p,), str(name).encode())


class _Report(ctypes.Structure):  # gpupool_report_t
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "peak_allocated", "peak_reserved", "peak_cached", "peak_requested", "allocated_bytes", "allocations", "freed_bytes", "frees",
        "cache_hits", "cache_misses", "driver_allocs", "driver_frees", "num_ooms", "duration_ns")]
    _fields_ += [("cache_hit_rate", ctypes.c_double), ("efficiency", ctypes.c_double)]


class profile_memory:  # a function to its users  pylint: disable=invalid-name
    """What happens on a device inside a with statement, by all threads:

        with gpupool.profile_memory() as profile:
            step()
        print(profile.peak_memory(), profile.memory_summary())

    Snapshots have its begin and end among their marks. Profiles may overlap; one can be used once.
    """

    def __init__(self, device=None, name="profile"):
        self._device, self._name = device, name
        self._scope = self._report = self._events = None

    def __enter__(self):
        if self._scope is not None:
            raise GpupoolError("profile_memory: a profile can be used once")
        scope = ctypes.c_uint64()
        _call("scope_begin", (ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)), _index(self._device), str(self._name).encode(),
              ctypes.byref(scope))
        self._scope = scope.value
        return self

    def __exit__(self, *_):
        report = _Report()
        _call("scope_end", (ctypes.c_uint64, ctypes.POINTER(_Report), ctypes.c_size_t), self._scope, ctypes.byref(report), ctypes.sizeof(report))
        self._report = {name: getattr(report, name) for name, _ in _Report._fields_}

    def report(self):
        """The figures of gpupool_report_t as a dict, when the with statement has ended."""
        if self._report is None:
            raise GpupoolError("profile_memory: the with statement has not ended")
        return dict(self._report)

    def peak_memory(self):
        """The most bytes that the program held at once inside, what it had from before included."""
        return self.report()["peak_allocated"]

    def memory_summary(self):
        """The report as a table to print."""
        return "".join("%-18s%20s\n" % (name, "%.3f" % value if isinstance(value, float) else value)
                       for name, value in self.report().items())

    def events(self):
        """What was recorded inside, oldest first: dicts of the columns of a snapshot's events, the action by its name. What the record has
        lost since is not among them, and nothing is where recording was off. Writes a snapshot to a temporary folder the first time."""
        self.report()
        if self._events is None:
            with tempfile.TemporaryDirectory() as folder:
                with open(dump_snapshot(os.path.join(folder, "profile.json")), encoding="utf-8") as file:
                    self._events = self._inside(json.load(file))
        return self._events

    def _inside(self, snapshot):
        times = [mark["time_ns"] for mark in snapshot["marks"] if mark["scope"] == self._scope]
        devices = [mark["device"] for mark in snapshot["marks"] if mark["scope"] == self._scope]
        if len(times) != 2:
            return []
        columns = dict(snapshot["events"])
        actions, details = columns.pop("actions"), columns.pop("details")
        events = []
        for row in zip(*columns.values()):
            event = dict(zip(columns, row))
            if times[0] <= event["time_ns"] <= times[1] and event["device"] == devices[0]:
                event.update(action=actions[event["action"]], detail=details[event["detail"]])
                events.append(event)
        return events


def retain(address):
    """One more holder of the block that begins there: it returns to the pool when the last one has let go, the program's free
    being one. Each retain has to be followed by one release."""
    _call("retain", (ctypes.c_void_p,), address)


def release(address):
    """Lets go of a block that was retained."""
    _call("release", (ctypes.c_void_p,), address)


def _run_tool(arguments):
    """`python3 -m gpupool run ...` is the command gpupool: that of the folder in which this module is installed, or of PATH."""
    folder = os.path.dirname(os.path.abspath(__file__))
    while not os.access(os.path.join(folder, "bin", "gpupool"), os.X_OK) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    tool = os.path.join(folder, "bin", "gpupool")
    tool = tool if os.access(tool, os.X_OK) else shutil.which("gpupool")
    if not tool:
        sys.exit("gpupool: the command gpupool was found neither beside %s nor on PATH" % __file__)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, which the program need not know
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(tool, ["gpupool"] + arguments)


if __name__ == "__main__":
    _run_tool(sys.argv[1:])
