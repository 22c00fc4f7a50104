"""One round of each figure of HTTP/3, by `penstock load`, which acknowledges what comes in batches unless it is told otherwise."""

from . import network
from .clients import GRACE_S
from .fixtures import GIB
from .measures import KEEPALIVE_CONNECTIONS, WARM_UP_S, Sample
from .scene import MIB

BULK_LIMIT_S = 60


def bulk(ack_every=None):
    """CPU seconds per GiB of file on one stream, whose client acknowledges one of so many packets. The second fetch counts."""

    def measure(make_server, clients, effort):
        times = network.account().bulk_times
        wanted, options = times * effort.bulk_bytes, ["--protocol", "h3", "--requests", str(times)]
        options += ["--ack-every", str(ack_every)] if ack_every else []
        with make_server(is_http3=True) as server:
            for _ in range(2):
                meter = server.meter()
                client = clients.objects(server.port, "/bulk.bin", options, times * BULK_LIMIT_S)
                usage = meter.stop()
                if client["bytes"] != wanted:
                    raise RuntimeError(f"{server.name} sent {client['bytes']} bytes of {wanted}")
        return Sample(usage.cpu_s * GIB / wanted, {**usage.record(), **client})

    return measure


def requests(path, objects, streams):
    """CPU microseconds of a response, on many connections with `streams` requests at a time each. What has come of unfinished ones counts
    by its bytes."""

    def measure(make_server, clients, effort):
        options = ["--protocol", "h3", "--connections", str(KEEPALIVE_CONNECTIONS), "--streams", str(streams)]
        options += ["--objects", str(objects)] if objects else []
        with make_server(is_http3=True) as server:
            clients.objects(server.port, path, [*options, "--duration", f"{WARM_UP_S}s"])
            meter = server.meter()
            client = clients.objects(server.port, path, [*options, "--duration", f"{effort.seconds}s"], effort.seconds + GRACE_S)
            usage = meter.stop()
        done = client["bytes"] / MIB if objects else client["requests"]
        return Sample(usage.cpu_s * 1e6 / done, {**usage.record(), **client})

    return measure
