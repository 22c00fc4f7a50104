"""One round of each figure of caches: Penstock's memory tier, nginx's `proxy_cache`, Varnish."""

import time

from .clients import GRACE_S
from .fixtures import GIB, KIB, MIB, SEGMENTS
from .measures import KEEPALIVE_CONNECTIONS, WARM_UP_S, Sample
from .origins import FileOrigin, SlowOrigin

OBJECT_BYTES = 64 * KIB  # of `/objects/N`
ZIPF_OBJECTS, ZIPF_EXPONENT = 16_000, 0.9
ZIPF_CACHE_BYTES = 125 * MIB  # an eighth of them
ZIPF_BATCH = 1000
RECOVERED = 0.95  # of the ratio before the restart
RECOVERY_LIMIT_S = 12
MEMORY_OBJECTS_CACHE_BYTES = GIB


def _hits(make_server, clients, effort, scenario, objects):
    """Requests for objects that are in the cache: the usage, and the record of the round."""
    with clients.origin(FileOrigin) as origin:
        with make_server(origin=origin.port, cache_bytes=512 * MIB) as server:
            once = ["--connections", 8, "--objects", SEGMENTS, "--requests", SEGMENTS]
            clients.objects(server.port, objects, once)
            clients.wrk(server.port, scenario, KEEPALIVE_CONNECTIONS, WARM_UP_S, "/keep/")
            before = origin.requests()
            meter = server.meter()
            client = clients.wrk(server.port, scenario, KEEPALIVE_CONNECTIONS, effort.seconds, "/keep/")
            usage = meter.stop()
            missed = origin.requests() - before
            if missed > client["requests"] // 100:
                raise RuntimeError(f"{server.name} asked its origin for {missed} of {client['requests']}: no hits")
            return usage, {**usage.record(), **client, "missed": missed}


def hit(make_server, clients, effort):
    """CPU seconds per GiB of objects of 1 MiB that are in the cache."""
    usage, record = _hits(make_server, clients, effort, "segments", "/keep/segment-{}.bin")
    return Sample(usage.cpu_s / record["requests"] * (GIB // MIB), record)


def small_hit(scenario, objects):
    """Microseconds of CPU per request for objects that are in the cache."""

    def measure(make_server, clients, effort):
        usage, record = _hits(make_server, clients, effort, scenario, objects)
        return Sample(usage.cpu_s * 1e6 / record["requests"], record)

    return measure


def fan_out(make_server, clients, effort):
    """N clients request one cold object of 4 MiB at once: milliseconds until 99 % have the whole object."""
    with clients.origin(SlowOrigin) as origin:
        with make_server(origin=origin.port, cache_bytes=128 * MIB) as server:
            meter = server.meter()
            options = ["--connections", effort.fan_out, "--requests", effort.fan_out, "--timeout", f"{GRACE_S}s"]
            client = clients.objects(server.port, "/cold.bin", options)
            usage = meter.stop()
            asked, sent = origin.counted()
            first, total = client["latency_ms"]["first_byte"], client["latency_ms"]["total"]
            return Sample(total["p99"], {
                **usage.record(), "last_byte_p50_ms": total["p50"], "first_byte_p50_ms": first["p50"],
                "first_byte_p99_ms": first["p99"], "origin_requests": asked, "origin_bytes": sent,
            })  # fmt: skip


def _zipf(clients, port, requests, seed):
    options = [
        "--connections", 8, "--requests", requests, "--objects", ZIPF_OBJECTS, "--order", "zipf",
        "--exponent", ZIPF_EXPONENT, "--seed", seed,
    ]  # fmt: skip
    return clients.objects(port, "/objects/{}", options)["requests"]


def hit_ratio(make_server, clients, effort):
    """Percent of requests answered without the origin, under Zipf, by a cache for an eighth of the objects; then the
    server is restarted, and the seconds until the ratio is back are counted."""
    requests = effort.objects
    with clients.origin(FileOrigin) as origin:
        scene = {"origin": origin.port, "cache_bytes": ZIPF_CACHE_BYTES, "slice_bytes": OBJECT_BYTES}
        scene["cache_objects"] = ZIPF_CACHE_BYTES // OBJECT_BYTES
        with make_server(**scene) as server:
            _zipf(clients, server.port, requests // 2, 1)
            before = origin.requests()
            done = _zipf(clients, server.port, requests, 2)
            ratio = 1 - (origin.requests() - before) / done
            space = server.kept_mib()
            server.stop()
            began = time.monotonic()
            server.start()
            back, at_once = _recovery(clients, server, origin, ratio, began)
            return Sample(ratio * 100, {"restart_s": back, "first_ratio_percent": at_once * 100, "kept_mib": space})


def _recovery(clients, server, origin, wanted, began):
    """Seconds until a thousand consecutive requests reach nearly the previous hit ratio, and the ratio at first."""
    first, seed = None, 10
    while True:
        before = origin.requests()
        done = _zipf(clients, server.port, ZIPF_BATCH, seed)
        ratio = 1 - (origin.requests() - before) / done
        first = ratio if first is None else first
        passed = time.monotonic() - began
        if ratio >= RECOVERED * wanted or passed > RECOVERY_LIMIT_S:
            return passed, first
        seed += 1


def kept_memory(make_server, clients, effort):
    """Bytes of the server's own memory per cached object, beside the object's bytes."""
    with clients.origin(FileOrigin) as origin:
        scene = {"origin": origin.port, "cache_bytes": MEMORY_OBJECTS_CACHE_BYTES, "slice_bytes": 64 * KIB}
        with make_server(**scene) as server:
            _fill(clients, server.port, 0, effort.objects // 20)
            before = server.index_kib()
            _fill(clients, server.port, 1, effort.objects)
            after = server.index_kib()
            # Bytes in files on tmpfs belong to no process; Varnish has bodies and index in one heap.
            bodies = KIB * effort.objects if server.keeps_bodies_in_heap else 0
            each = ((after - before) * 1024 - bodies) / effort.objects
            return Sample(each, {"objects": effort.objects, "before_kib": before, "after_kib": after})


def _fill(clients, port, part, objects):
    options = ["--connections", 8, "--requests", objects, "--objects", objects]
    clients.objects(port, f"/tiny/{part}-{{}}", options)
