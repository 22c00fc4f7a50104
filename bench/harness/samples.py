"""Parses the output of `perf script` and `strace -c`: a server's time and its number of calls."""

import re
from collections import Counter

SYSCALL = re.compile(r"^(?:__x64_sys_|__arm64_sys_|ksys_)(\w+)$")
FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<symbol>.*?)(?:\+0x[0-9a-f]+)? \((?P<image>[^)]*)\)\s*$")
# Templates and generics have colons too: the function begins after the file, whose name has none.
FAULTS = ("exc_page_fault", "asm_exc_page_fault")
INTERRUPTS = ("asm_sysvec_", "common_interrupt", "asm_common_interrupt", "sysvec_")


def parse_stacks(script):
    """The samples of `perf script -F ip,sym,dso`, each a list of (symbol, image), innermost first."""
    samples, frames = [], []
    for line in script.splitlines():
        frame = FRAME.match(line)
        if frame:
            frames.append((frame["symbol"], frame["image"]))
        elif frames:
            samples.append(frames)
            frames = []
    if frames:
        samples.append(frames)
    return samples


def part_of(frames):
    """The part of the work that a sample belongs to: a system call, a page fault, or a program's own code."""
    for symbol, _ in frames:
        call = SYSCALL.match(symbol)
        if call:
            return f"kernel: {call[1]}"
    if any(symbol in FAULTS for symbol, _ in frames):
        return "kernel: page fault"
    image = frames[0][1]
    if "kernel" in image:
        return "kernel: interrupts and switches"
    return "user: " + image.rsplit("/", 1)[-1]


def tally(samples):
    """Shares by part and by (part, symbol), as two counters of samples."""
    parts = Counter(part_of(frames) for frames in samples)
    symbols = Counter((part_of(frames), frames[0][0]) for frames in samples)
    return parts, symbols


def parse_syscalls(summary):
    """Calls and errors per system call from `strace -c`."""
    calls = {}
    for line in summary.splitlines():
        words = line.split()
        if len(words) in (5, 6) and re.fullmatch(r"\d+\.\d+", words[0]) and words[-1] != "total":
            calls[words[-1]] = (int(words[3]), int(words[4]) if len(words) == 6 else 0)
    return calls
