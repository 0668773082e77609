"""A Python program that allocates in all kinds of functions, under any CPython from 3.6 on.

`python_frames.py CASE COUNT REPORT`. Each allocation has a size of its own. REPORT gets, for each size, what sys._getframe
tells of the calling functions, the innermost first: name, file, line.
"""

import asyncio
import atexit
import ctypes
import functools
import itertools
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

runtime = ctypes.CDLL("libcudart.so.13")
expected = {}
sizes = itertools.count(1)  # next() of it is one step for all threads


def allocate(keep=False):
    size, memory, frames, frame = next(sizes), ctypes.c_void_p(), [], sys._getframe(1)
    while frame:
        code = frame.f_code
        frames.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
    expected[size] = frames
    if not keep:
        assert runtime.cudaFree(memory) == 0
    return 0


def nested():
    def inner(depth):
        if depth:
            return inner(depth - 1)
        return allocate()
    inner(5)


class Class:
    allocate()

    def method(self):
        allocate()
        return [self.static() for _ in range(2)]

    @staticmethod
    def static():
        (lambda: allocate())()

    @property
    def attribute(self):
        allocate()

    def __del__(self):
        allocate()


def generator():
    for i in range(3):
        allocate()
        yield i
    yield from inner_generator()


def inner_generator():
    allocate()
    yield 1


async def coroutine(depth):
    await asyncio.sleep(0)
    allocate()
    if depth:
        await coroutine(depth - 1)


async def asynchronous():
    await asyncio.gather(*[coroutine(depth) for depth in range(4)])


def key(value):
    allocate()
    return value


def through_c():
    sorted([3, 1, 2], key=lambda value: allocate() or value)
    functools.reduce(lambda a, b: (allocate(), a)[1], [1, 2, 3])
    list(map(lambda value: sorted([value, value + 1], key=key), [1, 2]))
    with Manager():
        allocate()
    try:
        raise ValueError
    except ValueError:
        allocate()
    finally:
        allocate()


class Manager:
    def __enter__(self):
        allocate()

    def __exit__(self, *_):
        allocate()


def made(number):
    """Code that is freed at once, so that other code gets its memory: other names, files, first lines or lines."""
    text = "\n" * (number % 7) + "def f%d(g):\n    x = 1\n%s    g()\nf%d(allocate)\n" % (
        number % 10, "    x = 2\n" * (number % 3), number % 10)
    exec(compile(text, "<made %d>" % (number % 13), "exec"), {"allocate": allocate})


def deep(levels):
    return deep(levels - 1) if levels else allocate()


exec(compile("def smile\u4e2d():\n    allocate()\n", "/tmp/caf\u00e9 \U0001F600.py", "exec"), globals())
exec(compile("def \u00e9t\u00e9():\n    allocate()\n", "/tmp/caf\u00e9.py", "exec"), globals())


def every_kind():
    nested()
    one = Class()
    one.method()
    one.attribute
    del one
    list(generator())
    asyncio.new_event_loop().run_until_complete(asynchronous())
    through_c()
    globals()["smile\u4e2d"]()
    globals()["\u00e9t\u00e9"]()
    deep(200)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: [made(number), nested(), list(generator())], range(30)))


def repeat(count):
    """As quickly as stacks can come, for long comparisons."""
    for number in range(count):
        made(number)
        nested()
        through_c()


def greenlets():
    """Each has a chain of frames of its own, and they take turns on one native stack."""
    from greenlet import greenlet

    def ping(depth):
        allocate()
        if depth:
            ping(depth - 1)
        nested()
        other.switch()
        allocate()

    def pong():
        allocate()
        through_c()
        one.switch()
    one, other = greenlet(ping), greenlet(pong)
    one.switch(3)
    allocate()


def forked():
    allocate()
    child = os.fork()
    if child == 0:  # CUDA refuses
        os._exit(runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(7000)) == 0)
    assert os.waitpid(child, 0)[1] == 0
    allocate()


def interpreters():
    """In a second interpreter, and beside one, nothing can be told."""
    import _xxsubinterpreters as subinterpreters
    allocate()
    other = subinterpreters.create()
    subinterpreters.run_string(other, (
        "import ctypes\n"
        "runtime, memory = ctypes.CDLL('libcudart.so.13'), ctypes.c_void_p()\n"
        "assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(5000)) == 0\n"))
    runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(5001))
    subinterpreters.destroy(other)
    allocate()


class AtTheEnd:
    """Frees in finalization, when the interpreter takes its modules apart."""

    def __init__(self):
        self.memory, self.free = ctypes.c_void_p(), runtime.cudaFree
        runtime.cudaMalloc(ctypes.byref(self.memory), ctypes.c_size_t(6000))

    def __del__(self):
        assert self.free(self.memory) == 0


def too_much():
    assert sorted([1 << 40], key=lambda size: runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size)))
    expected["line"] = [("too_much.<locals>.<lambda>" if sys.version_info >= (3, 11) else "<lambda>", __file__, sys._getframe().f_lineno - 1)]


def killed():
    nested()
    deep(3)


def report():
    with open(sys.argv[3], "w") as file:
        json.dump(expected, file)


def finalized():
    global at_the_end
    at_the_end = AtTheEnd()
    atexit.register(report)
    atexit.register(lambda: allocate())
    allocate()


def daemon():
    threading.Thread(target=lambda: (allocate(), threading.Event().wait()), daemon=True).start()
    atexit.register(report)
    allocate()


case, count = sys.argv[1], int(sys.argv[2])
if case == "repeat":
    repeat(count)
else:
    for _ in range(count):
        globals()[case]()
if case not in ("finalized", "daemon"):
    report()
if case == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
