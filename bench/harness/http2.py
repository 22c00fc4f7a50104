"""One round of each figure of HTTP/2, over TLS."""

from . import network
from .clients import end, tell
from .fixtures import GIB
from .measures import KEEPALIVE_CONNECTIONS, WARM_UP_S, Sample

MANIFESTS = 50


def bulk(make_server, clients, effort):
    """CPU seconds per GiB of file on one stream, and over HTTP/1.1 by the same client. The second fetch of each counts."""
    taken, times = {}, network.account().bulk_times
    wanted = times * effort.bulk_bytes
    with make_server(is_http2=True) as server:
        for protocol in ("h1", "h2", "h1", "h2"):
            meter = server.meter()
            client = clients.h2load(server.port, [f"--requests={times}"], ["/bulk.bin"], protocol)
            usage = meter.stop()
            if client["bytes"] != wanted:
                raise RuntimeError(f"{server.name} sent {client['bytes']} bytes of {wanted} over {protocol}")
            taken[protocol] = usage.cpu_s * GIB / wanted
            told = {**usage.record(), **client}
    return Sample(taken["h2"], {**told, "http1_cpu_s_per_gib": taken["h1"], "of_http1": taken["h2"] / taken["h1"]})


def requests(paths, streams):
    """Requests per CPU second, on many connections with `streams` requests at a time each."""

    def measure(make_server, clients, effort):
        options = [f"--clients={KEEPALIVE_CONNECTIONS}", f"--max-concurrent-streams={streams}"]
        with make_server(is_http2=True) as server:
            clients.h2load(server.port, [*options, f"--duration={WARM_UP_S}"], paths)
            meter = server.meter()
            client = clients.h2load(server.port, [*options, f"--duration={effort.seconds}"], paths)
            usage = meter.stop()
            return Sample(client["requests"] / usage.cpu_s, {**usage.record(), **client})

    return measure


def idle_memory(make_server, clients, effort):
    """KiB of the server's own resident memory per idle connection. The kernel's share is excluded."""
    with make_server(is_http2=True) as server:
        warm, _ = clients.hold_idle(server.port, KEEPALIVE_CONNECTIONS, is_http2=True)
        tell(warm, "close")
        before = server.memory_kib()
        client, count = clients.hold_idle(server.port, effort.idle_connections, is_http2=True)
        try:
            after = server.memory_kib()
            still_open = tell(client, "close")["open"]
        finally:
            end(client)
        if still_open != count:
            raise RuntimeError(f"{server.name} closed {count - still_open} of {count} idle connections")
        return Sample((after - before) / count, {"before_kib": before, "after_kib": after, "connections": count})


def manifest(make_server, clients, _effort):
    """Milliseconds to the first byte of a manifest while ten segments are under way on the same connection, without and with
    a priority of the client."""
    with make_server(is_http2=True) as server:
        clients.manifest(server.port, 5)
        plain = clients.manifest(server.port, MANIFESTS)
        urgent = clients.manifest(server.port, MANIFESTS, "u=0")
        return Sample(plain["first_byte_ms"], {**plain, "urgent_ms": urgent["first_byte_ms"]})
