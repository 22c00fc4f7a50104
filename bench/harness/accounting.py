"""CPU time and memory of a process, read from the kernel.

Processor time is the kernel's own account in nanoseconds, not samples of a timer tick. The total is taken from
the process's CPU clock, because threads that ended in the meantime stay in it; the threads' own accounts
(`/proc/PID/task/TID/schedstat`) show the share of each thread.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass

CLOCK_SCHED = 2  # CPUCLOCK_SCHED of the kernel's per-process clock ids: exact run time
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NS_PER_S = 1_000_000_000


def process_cpu_ns(pid):
    """CPU time of all threads of `pid` in nanoseconds, ended threads included."""
    return time.clock_gettime_ns((~pid << 3) | CLOCK_SCHED)


def thread_cpu_ns(pid):
    """CPU time in nanoseconds of each living thread, as `{"TID name": ns}`."""
    accounts = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat") as stat, open(f"/proc/{pid}/task/{tid}/comm") as comm:
                accounts[f"{tid} {comm.read().strip()}"] = int(stat.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended between the listing and the reading
    return accounts


def children(pid):
    """The living child processes of a process."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            with open(f"/proc/{pid}/task/{task}/children") as listed:
                found += map(int, listed.read().split())
    return found


def family(pid):
    """A process and all its descendants."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as line:
        return line.read().replace(b"\0", b" ").decode(errors="replace")


def memory_kib(pid, kinds=("RssAnon", "RssShmem")):
    """Resident memory of `pid` that is its own and not a file's, in KiB: anonymous pages and shared memory."""
    wanted = dict.fromkeys(kinds, 0)
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            name, _, rest = line.partition(":")
            if name in wanted:
                wanted[name] = int(rest.split()[0])
    return sum(wanted.values())


def _core_ns(core):
    """Busy, softirq and stolen nanoseconds of one core since boot. Sampled by the tick: good for a share only."""
    with open("/proc/stat") as stat:
        for line in stat:
            if line.startswith(f"cpu{core} "):
                user, nice, system, _idle, _wait, irq, softirq, steal = (int(f) for f in line.split()[1:9])
                busy = user + nice + system + irq + softirq
                return tuple(t * NS_PER_S // TICKS_PER_S for t in (busy, softirq, steal))
    raise OSError(f"no core {core} in /proc/stat")


def _idle_ns(core):
    """Nanoseconds in which a core had nothing to do, or was not given to this machine. Kernels that stop the tick of idle cores
    measure this, and sample the rest."""
    with open("/proc/stat") as stat:
        for line in stat:
            if line.startswith(f"cpu{core} "):
                _user, _nice, _system, idle, wait, _irq, _softirq, steal = (int(f) for f in line.split()[1:9])
                return (idle + wait + steal) * NS_PER_S // TICKS_PER_S
    raise OSError(f"no core {core} in /proc/stat")


def _softirq_thread_ns(core):
    """Run time of the kernel's softirq thread of a core, which completes network work of the server's calls."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm:
                if comm.read().strip() == f"ksoftirqd/{core}":
                    return process_cpu_ns(int(pid))
        except (FileNotFoundError, ProcessLookupError, OSError):
            continue
    return 0


@dataclass(frozen=True)
class Usage:
    """Usage of the server's core between two readings. `cpu_s` is what the account of the run counts."""

    cpu_s: float
    server_threads_s: float
    wall_s: float
    threads_s: dict
    foreign_share: float
    softirq_thread_s: float
    steal_s: float

    def record(self):
        """As plain numbers for `raw.json`."""
        return {
            "server_cpu_s": round(self.server_threads_s, 6),
            "counted_s": round(self.cpu_s, 6),
            "wall_s": round(self.wall_s, 4),
            "threads_s": self.threads_s,
            "core_foreign_share": round(self.foreign_share, 4),
            "core_ksoftirqd_s": round(self.softirq_thread_s, 6),
            "core_steal_s": round(self.steal_s, 4),
        }


class Meter:
    """Reads the accounts of some processes at construction and again at `stop`. With `counted`, all busy time of these cores
    counts instead of the processes' own."""

    def __init__(self, pids, core, counted=()):
        self._pids, self._core, self._counted = pids, core, counted
        self._core_start = _core_ns(core)
        self._softirq_start = _softirq_thread_ns(core)
        self._threads_start = self._threads()
        self._idle_start = self._idle()
        self._wall_start = time.monotonic_ns()
        self._cpu_start = self._cpu()

    def _cpu(self):
        return sum(process_cpu_ns(pid) for pid in self._pids)

    def _idle(self):
        return sum(_idle_ns(core) for core in self._counted)

    def _threads(self):
        return {name: ns for pid in self._pids for name, ns in thread_cpu_ns(pid).items()}

    def stop(self):
        """The difference. `foreign_share` is the share of the core's time that other processes took."""
        cpu = self._cpu() - self._cpu_start
        wall = time.monotonic_ns() - self._wall_start
        counted = len(self._counted) * wall - (self._idle() - self._idle_start) if self._counted else cpu
        threads = {
            name.split(" ", 1)[1] + "/" + name.split(" ", 1)[0]: ns - self._threads_start.get(name, 0)
            for name, ns in self._threads().items()
        }
        busy, _softirq, steal = (b - a for a, b in zip(self._core_start, _core_ns(self._core)))
        return Usage(
            cpu_s=counted / NS_PER_S,
            server_threads_s=cpu / NS_PER_S,
            wall_s=wall / NS_PER_S,
            threads_s={name: round(ns / NS_PER_S, 6) for name, ns in threads.items() if ns > 500_000},
            # Where all that a core does counts, nothing tells others from the kernel's work for the server.
            foreign_share=0 if self._counted else max(0, busy - cpu) / wall,
            softirq_thread_s=(_softirq_thread_ns(self._core) - self._softirq_start) / NS_PER_S,
            steal_s=steal / NS_PER_S,
        )
