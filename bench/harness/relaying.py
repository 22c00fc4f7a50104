"""One round of each figure of proxies: a response of an origin that is relayed and never kept."""

from .clients import end, tell
from .fixtures import GIB, MIB
from .measures import KEEPALIVE_CONNECTIONS, WARM_UP_S, Sample
from .origins import FileOrigin

HELD = 200  # relayed bodies whose client does not read


def bulk(make_server, clients, effort):
    """CPU seconds per GiB of one large body, on one connection. The second fetch counts."""
    path = "/pass/bulk.bin"
    with clients.origin(FileOrigin) as origin, make_server(origin=origin.port, relays=True) as server:
        clients.bulk(server.port, path)
        meter = server.meter()
        client = clients.bulk(server.port, path)
        usage = meter.stop()
        if client["wire_bytes"] <= effort.bulk_bytes:
            raise RuntimeError(f"{server.name} relayed {client['wire_bytes']} bytes of {effort.bulk_bytes}")
        return Sample(usage.cpu_s * GIB / effort.bulk_bytes, {**usage.record(), **client})


def segments(make_server, clients, effort):
    """CPU seconds per GiB of bodies of 1 MiB, on kept connections."""
    with clients.origin(FileOrigin) as origin, make_server(origin=origin.port, relays=True) as server:
        clients.wrk(server.port, "segments", KEEPALIVE_CONNECTIONS, WARM_UP_S, "/pass/", is_warm_up=True)
        meter = server.meter()
        client = clients.wrk(server.port, "segments", KEEPALIVE_CONNECTIONS, effort.seconds, "/pass/")
        usage = meter.stop()
        return Sample(usage.cpu_s / client["requests"] * (GIB // MIB), {**usage.record(), **client})


def held_memory(make_server, clients, _effort):
    """KiB of the server's own resident memory for each relayed body whose client does not read. The kernel's is excluded."""
    with clients.origin(FileOrigin) as origin, make_server(origin=origin.port, relays=True) as server:
        # What is made once and kept.
        for _ in range(2):
            warm = clients.hold_bodies(server.port, "/pass/bulk.bin", HELD // 10)
            tell(warm, "close")
            end(warm)
        before = server.memory_kib()
        client = clients.hold_bodies(server.port, "/pass/bulk.bin", HELD)
        try:
            after = server.memory_kib()
            held = tell(client, "close")["open"]
        finally:
            end(client)
        if held != HELD:
            raise RuntimeError(f"{server.name} closed {HELD - held} of {HELD} connections")
        return Sample((after - before) / HELD, {"before_kib": before, "after_kib": after, "connections": HELD})
