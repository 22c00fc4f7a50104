"""One round of each figure of files and handshakes; those of caches are in `caching.py`.

A round is one server's: start it, warm it, measure, end it. The next server's round follows at once. `make_server`
makes the server; it takes the port of an origin if there is one.
"""

import json
import re
import subprocess
from dataclasses import dataclass

from . import network
from .clients import end, tell
from .fixtures import BODY_BYTES, GIB, KIB, MIB
from .origins import FileOrigin, PlainSendfile
from .server import SERVER_CORE, pin

KEEPALIVE_CONNECTIONS = 50
HANDSHAKE_CONNECTIONS = 32
WARM_UP_S = 1
BODIES = 10
BODY_OF = {"segments": MIB, "pieces": 100 * KIB}


@dataclass(frozen=True)
class Effort:
    """Duration and amount: the default run, or the quick one, which only tests the harness."""

    bulk_bytes: int
    seconds: int
    handshake_seconds: int
    storm_connections: int
    idle_connections: int
    sessions: int
    fan_out: int
    objects: int
    rounds: int


DEFAULT_EFFORT = Effort(
    GIB, seconds=3, handshake_seconds=2, storm_connections=2000, idle_connections=2000, sessions=200_000, fan_out=1000,
    objects=40_000, rounds=5,
)  # fmt: skip
QUICK_EFFORT = Effort(
    GIB // 4, seconds=1, handshake_seconds=1, storm_connections=300, idle_connections=300, sessions=3000, fan_out=50,
    objects=3000, rounds=1,
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One round of one server: the figure and its details."""

    value: float
    details: dict


def bulk(make_server, clients, effort):
    """CPU seconds per GiB of file, one connection. The second fetch counts; the first, on a cold mapping, is recorded."""
    times = network.account().bulk_times
    with make_server() as server:
        per_gib, told = [], []
        for _ in range(2):
            meter = server.meter()
            client = clients.bulk(server.port, times=times)
            usage = meter.stop()
            if client["wire_bytes"] <= times * effort.bulk_bytes:
                raise RuntimeError(f"{server.name} sent {client['wire_bytes']} bytes of {times} times {effort.bulk_bytes}")
            per_gib.append(usage.cpu_s * GIB / (times * effort.bulk_bytes))
            told.append({**usage.record(), **client})
        return Sample(per_gib[1], {**told[1], "first_fetch_cpu_s_per_gib": round(per_gib[0], 4)})


def requests(scenario, connections=KEEPALIVE_CONNECTIONS):
    """Requests per CPU second."""

    def measure(make_server, clients, effort):
        with make_server() as server:
            clients.wrk(server.port, scenario, connections, WARM_UP_S, is_warm_up=True)
            meter = server.meter()
            # Many connections take time to open.
            client = clients.wrk(server.port, scenario, connections, effort.seconds + connections // 500)
            usage = meter.stop()
            done = client["requests"]
            if connections > KEEPALIVE_CONNECTIONS:
                # Many large bodies are incomplete at the end, and their CPU time is counted.
                done = client["wire_bytes"] / BODY_OF[scenario]
            return Sample(done / usage.cpu_s, {**usage.record(), **client})

    return measure


def handshakes(kind, then):
    """Microseconds of CPU per handshake, accepting and closing the connection included."""

    def measure(make_server, clients, effort):
        with make_server() as server:
            clients.handshakes(server.port, WARM_UP_S / 2, HANDSHAKE_CONNECTIONS, kind, then)
            meter = server.meter()
            client = clients.handshakes(server.port, effort.handshake_seconds, HANDSHAKE_CONNECTIONS, kind, then)
            usage = meter.stop()
            return Sample(usage.cpu_s * 1e6 / client["handshakes"], {**usage.record(), **client})

    return measure


def fresh_connections(make_server, clients, effort):
    """Microseconds of CPU per connection without TLS that makes one request."""
    with make_server() as server:
        clients.fresh_connections(server.port, WARM_UP_S / 2, HANDSHAKE_CONNECTIONS)
        meter = server.meter()
        client = clients.fresh_connections(server.port, effort.handshake_seconds, HANDSHAKE_CONNECTIONS)
        usage = meter.stop()
        return Sample(usage.cpu_s * 1e6 / client["requests"], {**usage.record(), **client})


def storm(make_server, clients, effort):
    """Milliseconds from the first connection attempt to the last answer, of clients that connect at once."""
    with make_server() as server:
        clients.handshakes(server.port, WARM_UP_S / 2, HANDSHAKE_CONNECTIONS)
        meter = server.meter()
        client = clients.storm(server.port, effort.storm_connections)
        usage = meter.stop()
        return Sample(client["last_ms"], {**usage.record(), **client})


def idle_memory(make_server, clients, effort):
    """KiB of the server's own resident memory per idle keep-alive connection. The kernel's share is excluded."""
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


def session_memory(make_server, clients, effort):
    """Bytes of memory for each session in the server's own cache: full handshakes of clients without tickets."""
    with make_server() as server:
        clients.handshake_each(server.port, KEEPALIVE_CONNECTIONS, effort.sessions // 20)
        before = server.memory_kib()
        made = clients.handshake_each(server.port, KEEPALIVE_CONNECTIONS, effort.sessions)
        after = server.memory_kib()
        return Sample((after - before) * 1024 / made, {"sessions": made, "before_kib": before, "after_kib": after})


def passed_on(make_server, clients, _effort):
    """CPU seconds per GiB of an uncacheable origin response."""
    with clients.origin(FileOrigin) as origin, make_server(origin=origin.port) as server:
        clients.bulk(server.port, "/pass/body.bin", 2)
        meter = server.meter()
        client = clients.bulk(server.port, "/pass/body.bin", BODIES)
        usage = meter.stop()
        if client["wire_bytes"] <= BODIES * BODY_BYTES:
            raise RuntimeError(f"{server.name} passed on {client['wire_bytes']} bytes of {BODIES * BODY_BYTES}")
        return Sample(usage.cpu_s * GIB / (BODIES * BODY_BYTES), {**usage.record(), **client})


def physics(sealing):
    """CPU seconds per GiB of plain `sendfile`, of sealing alone by the program at `sealing`, and of both together."""

    def measure(_make_server, clients, effort):
        with clients.origin(PlainSendfile) as server:
            times = network.account().bulk_times
            clients.bulk(server.port, "/")
            taken = []
            for _ in range(3):
                meter = server.meter()
                clients.bulk(server.port, "/", times)
                taken.append(meter.stop().cpu_s / times)
        # Disturbances only add: the minimum is nearest to the true cost.
        moving = min(taken) * GIB / effort.bulk_bytes
        done = subprocess.run([str(sealing())], preexec_fn=pin(SERVER_CORE), capture_output=True, text=True, timeout=60)
        if done.returncode or not re.match(r"\{.*\}$", done.stdout):
            raise RuntimeError(f"{sealing()} failed: {done.stdout}{done.stderr}")
        alone = json.loads(done.stdout)["cpu_s_per_gib"]
        return Sample(moving + alone, {"sendfile_cpu_s_per_gib": moving, "sealing_cpu_s_per_gib": alone})

    return measure
