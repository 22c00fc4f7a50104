"""Counts the instructions of one thread by function or by source file: each is a single step under ptrace, so that noise changes nothing.

A step takes some microseconds, and the thread waits meanwhile: only short work can be counted. Instructions of the kernel are not
counted, and those of shared libraries are one entry. Linux on x86-64.
"""

import bisect
import ctypes
import os
import platform
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from threading import Event, Thread

PEEKUSER, CONT, SINGLESTEP, DETACH, SEIZE, INTERRUPT = 3, 7, 9, 17, 0x4206, 0x4207
RIP = 16 * 8  # offset in `struct user_regs_struct`
WALL = 0x40000000
HASH = re.compile(r"::h[0-9a-f]{16}$")
LIBRARIES = "(shared libraries)"
UNKNOWN = "(no line: dependencies, generated code)"
SOURCE = re.compile(r"(?:^|/)(crates/[^:]+\.rs):\d")

# The files of the stages that apply rules of a site: its routes, who may ask, how much, what is changed.
RULES = re.compile(
    r"crates/content/src/(pipeline/(admit|field_rules|redirect|rewrite)"
    r"|site/(access|jwt|limits|maintenance|prefix_tree|rewritten|route_matchers|signatures|token|verified_secrets))"
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request, thread, address=0, data=0):
    ctypes.set_errno(0)
    result = _libc.ptrace(request, thread, address, data)
    if result == -1 and (fault := ctypes.get_errno()):
        raise OSError(fault, f"ptrace: {os.strerror(fault)}")
    return result


def thread_of(pid, work):
    """The thread of a process that has most processor time while `work` is done."""
    before = _times(pid)
    work()
    return max((time - before.get(thread, 0), thread) for thread, time in _times(pid).items())[1]


def _times(pid):
    """Processor time of each thread."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(task.name): int((task / "schedstat").read_text().split()[0]) for task in tasks}


def symbols_of(listed):
    """Addresses and names of functions from `nm`, by address."""
    found = []
    for line in listed.splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[1] in "tTwW":
            found.append((int(words[0], 16), HASH.sub("", words[2])))
    return sorted(found)


def by_function(offsets, symbols):
    """Instructions by function, from instructions by offset in the program."""
    starts, counts = [start for start, _ in symbols], Counter()
    for offset, count in offsets.items():
        place = bisect.bisect_right(starts, offset) - 1
        counts[symbols[place][1] if place >= 0 else LIBRARIES] += count
    return counts


def by_file(offsets, said):
    """Instructions by source file of this project, from instructions by offset and the words of `addr2line` on these offsets. Of
    functions that were inlined into each other, the innermost of this project counts."""
    counts, offset, is_known = Counter(), None, True
    for line in [*said.splitlines(), "0x0"]:
        if line.startswith("0x"):
            if not is_known:
                counts[UNKNOWN] += offsets[offset]
            offset, is_known = int(line, 16), False
        elif not is_known and (found := SOURCE.search(line)):
            counts[found[1]] += offsets[offset]
            is_known = True
    return counts


def count_files(pid, work):
    """As `count`, by source file."""
    offsets, outside, program = _counted(pid, work)
    said = subprocess.run(
        ["addr2line", "--exe", program, "--addresses", "--inlines"],
        input="".join(f"{offset:#x}\n" for offset in offsets), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return by_file(offsets, said.stdout) + Counter({LIBRARIES: outside})


def count(pid, work):
    """Instructions by function of the thread of a process that does `work`, which is done once before."""
    offsets, outside, program = _counted(pid, work)
    listed = subprocess.run(["nm", "--demangle", "--defined-only", program], capture_output=True, text=True, check=True)
    return by_function(offsets, symbols_of(listed.stdout)) + Counter({LIBRARIES: outside})


def _counted(pid, work):
    """Instructions by offset in the program, those outside of it, and its file."""
    if platform.machine() != "x86_64":
        raise RuntimeError("single steps are counted on x86-64 only")
    program = os.path.realpath(f"/proc/{pid}/exe")
    offsets, outside = _steps(thread_of(pid, work), work, *_where(pid, program))
    return offsets, outside, program


def _where(pid, program):
    """First and last address of a program in memory."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    ranges = [line[0].split("-") for line in lines if line[-1] == program]
    return min(int(start, 16) for start, _ in ranges), max(int(end, 16) for _, end in ranges)


def _steps(thread, work, first, end):
    """Steps by offset in the program, and those outside of it."""
    offsets, outside, done, failed = Counter(), 0, Event(), []

    def working():
        try:
            work()
        except Exception as fault:  # raised again below, in the thread that waits
            failed.append(fault)
        done.set()

    _ptrace(SEIZE, thread)
    _ptrace(INTERRUPT, thread)
    _, status = os.waitpid(thread, WALL)
    worker = Thread(target=working)
    worker.start()
    while not done.is_set():
        address = _ptrace(PEEKUSER, thread, RIP)
        if first <= address < end:
            offsets[address - first] += 1
        else:
            outside += 1
        _ptrace(SINGLESTEP, thread, 0, _signal(status))
        # Not blocked for ever: behind the work the thread waits for more.
        while (found := os.waitpid(thread, WALL | os.WNOHANG)) == (0, 0) and not done.is_set():
            pass
        status = found[1]
    worker.join()
    if found == (0, 0):
        _ptrace(INTERRUPT, thread)
        _, status = os.waitpid(thread, WALL)
    _release(thread, status)
    if failed:
        raise failed[0]
    return offsets, outside


def _release(thread, status):
    """Ends the trace of a stopped thread. The step into a system call that is interrupted leaves a trap, which would end the process."""
    while _has_trap(thread):
        _ptrace(CONT, thread, 0, _signal(status))
        _, status = os.waitpid(thread, WALL)
    _ptrace(DETACH, thread, 0, _signal(status))


def _has_trap(thread):
    """Whether `SIGTRAP` is pending for a thread."""
    pending = re.search(r"^SigPnd:\s*([0-9a-f]+)$", Path(f"/proc/{thread}/status").read_text(), re.MULTILINE)[1]
    return bool(int(pending, 16) >> (signal.SIGTRAP - 1) & 1)


def _signal(status):
    """The signal that stopped a thread, if it is not one of the trace's own."""
    is_traced = not os.WIFSTOPPED(status) or os.WSTOPSIG(status) == signal.SIGTRAP or status >> 16
    return 0 if is_traced else os.WSTOPSIG(status)
