"""The figures: what each means, what it should reach, and how one round of it is taken.

A round is one server's: start it, warm it, measure, end it. The other server's round follows at once.
"""

import re
import subprocess
from dataclasses import dataclass, replace
from typing import Callable

from .clients import end, tell
from .fixtures import GIB
from .stats import Target, compare
from .tls import DEFAULT, Tls

KEEPALIVE_CONNECTIONS = 50
HANDSHAKE_CONNECTIONS = 32
WARM_UP_S = 1


@dataclass(frozen=True)
class Effort:
    """How long and how much: the default run, or the quick one that only shows that everything works."""

    bulk_bytes: int
    seconds: int
    handshake_seconds: int
    storm_connections: int
    idle_connections: int
    rounds: int


DEFAULT_EFFORT = Effort(GIB, seconds=4, handshake_seconds=3, storm_connections=2000, idle_connections=2000, rounds=5)
QUICK_EFFORT = Effort(GIB // 4, seconds=1, handshake_seconds=1, storm_connections=300, idle_connections=500, rounds=2)


@dataclass(frozen=True)
class Sample:
    """One round of one server: the figure, and what else was seen."""

    value: float
    details: dict


@dataclass(frozen=True)
class Figure:
    """A figure of the comparison. `measure(make_server, clients, effort)` takes one round."""

    letter: str
    title: str
    unit: str
    digits: int
    target: Target | None
    measure: Callable
    tls: Tls = DEFAULT
    alone: bool = False  # there is nothing of the other server's to compare it with
    also: tuple = ()  # (title, key): details of the same rounds that get a row of their own

    def rows(self, taken, names):
        """The rows of the table: the figure with its comparison, then what else its rounds have told."""
        rows = [(self, _compared(taken, names, "value"))]
        for title, key in self.also:
            rows.append((replace(self, letter="", title=title, target=None), _compared(taken, names, key)))
        return rows


def _compared(taken, names, key):
    return compare(*([sample[key] for sample in taken[name]] for name in names))


def bulk(make_server, clients, effort):
    """CPU seconds per GiB of file, one connection. The second fetch counts; the first, on a cold mapping, is told."""
    with make_server() as server:
        per_gib, told = [], []
        for _ in range(2):
            meter = server.meter()
            client = clients.bulk(server.port)
            usage = meter.stop()
            if client["wire_bytes"] <= effort.bulk_bytes:
                raise RuntimeError(f"{server.name} sent {client['wire_bytes']} bytes of {effort.bulk_bytes}")
            per_gib.append(usage.cpu_s * GIB / effort.bulk_bytes)
            told.append({**usage.record(), **client})
        return Sample(per_gib[1], {**told[1], "first_fetch_cpu_s_per_gib": round(per_gib[0], 4)})


def _requests(scenario):
    def measure(make_server, clients, effort):
        with make_server() as server:
            clients.wrk(server.port, scenario, KEEPALIVE_CONNECTIONS, WARM_UP_S)
            meter = server.meter()
            client = clients.wrk(server.port, scenario, KEEPALIVE_CONNECTIONS, effort.seconds)
            usage = meter.stop()
            return Sample(client["requests"] / usage.cpu_s, {**usage.record(), **client})

    return measure


def _handshakes(kind, then):
    """Microseconds of CPU per handshake, accepting and closing the connection included."""

    def measure(make_server, clients, effort):
        with make_server() as server:
            clients.handshakes(server.port, WARM_UP_S / 2, HANDSHAKE_CONNECTIONS, kind, then)
            meter = server.meter()
            client = clients.handshakes(server.port, effort.handshake_seconds, HANDSHAKE_CONNECTIONS, kind, then)
            usage = meter.stop()
            return Sample(usage.cpu_s * 1e6 / client["handshakes"], {**usage.record(), **client})

    return measure


def storm(make_server, clients, effort):
    """Milliseconds from the first connection attempt to the last answer, of so many clients at once."""
    with make_server() as server:
        clients.handshakes(server.port, WARM_UP_S / 2, HANDSHAKE_CONNECTIONS)
        meter = server.meter()
        client = clients.storm(server.port, effort.storm_connections)
        usage = meter.stop()
        return Sample(client["last_ms"], {**usage.record(), **client})


def idle_memory(make_server, clients, effort):
    """KiB of the server's own resident memory per idle keep-alive connection. The kernel's share is not in it."""
    with make_server() as server:
        warm, _ = clients.hold_idle(server.port, KEEPALIVE_CONNECTIONS)
        tell(warm, "close")
        before = server.memory_kib()
        client, count = clients.hold_idle(server.port, effort.idle_connections)
        try:
            after = server.memory_kib()
            still_open = tell(client, "close")["open"]
        finally:
            end(client)
        if still_open != count:
            raise RuntimeError(f"{server.name} closed {count - still_open} of {count} idle connections")
        return Sample((after - before) / count, {"before_kib": before, "after_kib": after, "connections": count})


def first_byte(make_server, clients, _effort):
    """Milliseconds from just before exec to the first byte of a response over TLS."""
    server = make_server()
    client = clients.arm_first_byte(server.port)
    try:
        server.spawn()
        answer = tell(client, str(server.spawned_ns))
    finally:
        end(client)
        server.stop()
    return Sample(answer["first_byte_ms"], answer)


def session_memory(make_server, _clients, _effort):
    """Bytes of memory per session in the internal cache, 200,000 of them; an example of the program fills it."""
    program = make_server().session_memory
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
    counts = re.search(r"^(\d+) sessions of (\d+) bytes, (\d+) evicted$", said, re.MULTILINE)
    each = re.search(r"^memory of the process: (\d+) bytes each$", said, re.MULTILINE)
    if not counts or not each:
        raise RuntimeError(f"{program} said something else: {said}")
    sessions, session_bytes, evicted = map(int, counts.groups())
    return Sample(int(each[1]), {"sessions": sessions, "session_bytes": session_bytes, "evicted": evicted})


FIGURES = [
    Figure("a", "1 GiB file, one connection", "CPU s/GiB", 3, Target("ratio", 0.5, at_most=True), bulk),
    Figure("b", "1 MiB files, 50 connections", "req/CPU s", 0, Target("ratio", 2.0, at_most=False), _requests("segments")),
    Figure("c", "1 KiB file, 50 connections", "req/CPU s", 0, Target("ratio", 1.2, at_most=False), _requests("small")),
    Figure("d", "full TLS 1.3, ECDSA", "CPU µs", 1, Target("ratio", 0.5, at_most=True), _handshakes("full", "close")),
    Figure("e", "idle connection", "KiB", 2, Target("value", 8.0, at_most=True), idle_memory),
    Figure("f", "start to first byte", "ms", 1, None, first_byte),
    Figure("g", "full TLS 1.3 and one request", "CPU µs", 1, None, _handshakes("full", "request")),
    Figure(
        "h", "full TLS 1.2, ECDSA", "CPU µs", 1, Target("ratio", 0.5, at_most=True), _handshakes("full", "close"),
        Tls("1.2"),
    ),
    Figure(
        "i", "full TLS 1.3, RSA-2048", "CPU µs", 1, Target("ratio", 0.8, at_most=True), _handshakes("full", "close"),
        Tls("1.3", "rsa"),
    ),
    Figure(
        "j", "resumed TLS 1.2", "CPU µs", 1, Target("ratio", 0.5, at_most=True), _handshakes("resumed", "close"),
        Tls("1.2"),
    ),
    # With a request, because a client that closes at once need not wait for the tickets of its next connection.
    Figure(
        "k", "resumed TLS 1.3 and one request", "CPU µs", 1, Target("ratio", 0.4, at_most=True),
        _handshakes("resumed", "request"),
    ),
    Figure(
        "l", "storm: the last is served", "ms", 0, None, storm,
        also=(("storm: half are served", "p50_ms"), ("storm: 99 % are served", "p99_ms")),
    ),
    Figure("m", "session kept in the internal cache", "bytes", 0, None, session_memory, alone=True),
    Figure(
        "n", "full TLS 1.3, default groups", "CPU µs", 1, None, _handshakes("full", "close"), Tls(is_group_pinned=False),
    ),
]  # fmt: skip
