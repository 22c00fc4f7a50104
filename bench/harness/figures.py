"""The figures: what each means, what it should reach, and how one round of it is taken.

A round is one server's: start it, warm it, measure, end it. The other server's round follows at once.
"""

from dataclasses import dataclass
from typing import Callable

from .clients import end, tell
from .fixtures import GIB
from .stats import Target

KEEPALIVE_CONNECTIONS = 50
HANDSHAKE_CLIENTS = 4
WARM_UP_S = 1


@dataclass(frozen=True)
class Effort:
    """How long and how much: the default run, or the quick one that only shows that everything works."""

    bulk_bytes: int
    seconds: int
    idle_connections: int
    rounds: int


DEFAULT_EFFORT = Effort(bulk_bytes=GIB, seconds=5, idle_connections=2000, rounds=5)
QUICK_EFFORT = Effort(bulk_bytes=GIB // 4, seconds=1, idle_connections=500, rounds=2)


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


def _handshakes(then):
    """Microseconds of CPU per full handshake, accepting and closing the connection included."""

    def measure(make_server, clients, effort):
        with make_server() as server:
            clients.handshakes(server.port, WARM_UP_S / 2, HANDSHAKE_CLIENTS, then)
            meter = server.meter()
            client = clients.handshakes(server.port, effort.seconds, HANDSHAKE_CLIENTS, then)
            usage = meter.stop()
            return Sample(usage.cpu_s * 1e6 / client["handshakes"], {**usage.record(), **client})

    return measure


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


FIGURES = [
    Figure("a", "1 GiB file, one connection", "CPU s/GiB", 3, Target("ratio", 0.5, at_most=True), bulk),
    Figure("b", "1 MiB files, 50 connections", "req/CPU s", 0, Target("ratio", 2.0, at_most=False), _requests("segments")),
    Figure("c", "1 KiB file, 50 connections", "req/CPU s", 0, Target("ratio", 1.2, at_most=False), _requests("small")),
    Figure("d", "full TLS 1.3 handshake", "CPU µs", 1, Target("ratio", 0.6, at_most=True), _handshakes("close")),
    Figure("e", "idle connection", "KiB", 2, Target("value", 8.0, at_most=True), idle_memory),
    Figure("f", "start to first byte", "ms", 1, None, first_byte),
    Figure("g", "handshake and one request", "CPU µs", 1, None, _handshakes("request")),
]  # fmt: skip
