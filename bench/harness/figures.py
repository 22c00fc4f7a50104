"""The figures: the meaning, target and peers of each."""

from dataclasses import dataclass, replace
from typing import Callable

from . import caching, http2, http3, measures, relaying
from .builds import of_kinds
from .fixtures import SEGMENTS
from .measures import DEFAULT_EFFORT, HANDSHAKE_CONNECTIONS, KEEPALIVE_CONNECTIONS, QUICK_EFFORT  # noqa: F401
from .servers import Penstock
from .stats import Target, compare
from .tls import DEFAULT, Tls

FILE_SERVERS = ("nginx", "h2o", "caddy")
ALL = (*FILE_SERVERS, "haproxy")
CACHES = ("nginx", "varnish")
PROXIES = ("nginx", "haproxy", "caddy")
NGINX = ("nginx",)
# Figures of a server and a client alone, whose cost can be counted by cores too.
OF_TWO = ("a", "b", "c", "d", "g", "h", "i", "j", "k", "n", "o", "p", "q", "r", "s", "x", "z", "2a", "2b", "2c", "2d", "5a", "5b", "5c", "5d")
SMALL_PATHS = [f"/small-{number}.bin" for number in range(SEGMENTS)]
SEGMENT_PATHS = [f"/segment-{number}.bin" for number in range(SEGMENTS)]


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
    peers: tuple = FILE_SERVERS  # empty: no peer to compare it with
    is_plain: bool = False
    less_is_better: bool = True
    files: tuple = ()
    rounds_max: int = 99
    group: str = "Bodies"
    also: tuple = ()  # (title, key, unit, digits): details of the same rounds that get a row of their own

    def rows(self, taken, ours, peers):
        """(figure, peer, comparison): the figure with each peer's comparison, then the details of its rounds."""
        present = of_kinds([name for name in taken if taken[name] and name != ours], peers) or [None]
        rows = [(self, peer, _compared(taken, ours, peer, "value")) for peer in present]
        for title, key, unit, digits in self.also:
            if not all(key in sample for sample in taken[ours]):
                continue  # a run that was stored before this was recorded
            part = replace(self, title=title, unit=unit, digits=digits, target=None, letter="", less_is_better=True)
            rows += [(part, peer, _compared(taken, ours, peer, key)) for peer in present]
        return rows


def _compared(taken, ours, peer, key):
    theirs = [sample[key] for sample in taken[peer]] if peer else []
    return compare([sample[key] for sample in taken[ours]], theirs)


def _sealing():
    return Penstock.program.parent / "examples/sealing"


def at_most(bound, of="ratio"):
    return Target(of, bound, at_most=True)


def at_least(bound):
    return Target("ratio", bound, at_most=False)


def _body(letter, title, scenario, connections, target=None, **more):
    return Figure(
        letter, title, "req/CPU s", 0, target, measures.requests(scenario, connections), less_is_better=False, **more
    )


def _http2(letter, title, paths, streams, target, **more):
    measure = http2.requests(paths, streams)
    return Figure(letter, title, "req/CPU s", 0, target, measure, less_is_better=False, group="HTTP/2", **more)


def _relayed(letter, title, measure, files, target=None, unit="CPU s/GiB", **more):
    return Figure(letter, title, unit, 3, target, measure, peers=PROXIES, files=files, group="Proxy", **more)


def _handshake(letter, title, target, kind="full", then="close", **more):
    measure = measures.handshakes(kind, then)
    return Figure(letter, title, "CPU µs", 1, target, measure, group="Handshakes", **more)


FIGURES = [
    Figure("a", "1 GiB file, one connection", "CPU s/GiB", 3, at_most(0.5), measures.bulk, files=("bulk",)),
    _body("b", "1 MiB files, 50 connections", "segments", 50, at_least(2.0), files=("segment",)),
    _body("c", "1 KiB file, 50 connections", "small", 50, at_least(1.2)),
    _handshake("d", "full TLS 1.3, ECDSA", at_most(0.5), peers=ALL),
    Figure(
        "e", "idle connection", "KiB", 2, at_most(8.0, "value"), measures.idle_memory, peers=ALL, group="Connections",
    ),
    Figure("f", "start to first byte", "ms", 1, None, measures.first_byte, peers=NGINX, group="Connections"),
    _handshake("g", "full TLS 1.3 and one request", None, then="request", peers=NGINX),
    _handshake("h", "full TLS 1.2, ECDSA", at_most(0.5), tls=Tls("1.2"), peers=("nginx", "h2o", "haproxy")),
    _handshake("i", "full TLS 1.3, RSA-2048", at_most(0.8), tls=Tls("1.3", "rsa"), peers=("nginx", "h2o", "haproxy")),
    _handshake("j", "resumed TLS 1.2", at_most(0.5), kind="resumed", tls=Tls("1.2"), peers=("nginx", "h2o", "haproxy")),
    # With a request, because a client that closes at once does not wait for tickets.
    # h2o 2.2 leaves itself out, because it gives no new ticket to a client that resumes; h2o 2.3 takes part.
    _handshake("k", "resumed TLS 1.3 and one request", at_most(0.4), kind="resumed", then="request", peers=ALL),
    Figure(
        "l", "storm: the last is served", "ms", 0, None, measures.storm, peers=ALL, group="Connections",
        also=(("storm: half are served", "p50_ms", "ms", 0), ("storm: 99 % are served", "p99_ms", "ms", 0)),
    ),
    Figure(
        "m", "session in the server's own cache", "bytes", 0, None, measures.session_memory, peers=NGINX,
        tls=Tls("1.2", has_tickets=False), rounds_max=1, group="Connections",
    ),
    _handshake("n", "full TLS 1.3, default groups", None, tls=Tls(is_group_pinned=False), peers=("nginx", "h2o")),
    _body("o", "1 MiB files, 1,000 connections", "segments", 1000, files=("segment",)),
    _body("p", "100 KiB files, 50 connections", "pieces", 50, files=("piece",)),
    _body("q", "100 KiB files, 1,000 connections", "pieces", 1000, files=("piece",)),
    _body("r", "64 KiB ranges of a large file", "ranges", 50, files=("bulk",)),
    _body("s", "1 MiB files without TLS", "segments", 50, files=("segment",), is_plain=True),
    Figure(
        "x", "connection without TLS, one request", "CPU µs", 1, None, measures.fresh_connections, is_plain=True,
        group="Connections",
    ),
    Figure(
        "t", "100 MiB body of an uncacheable origin response", "CPU s/GiB", 3, None, measures.passed_on, peers=ALL,
        files=("body",), group="Origins and caches",
    ),
    Figure(
        "u", "cold object, 1,000 at once: 99 % have it", "ms", 0, None, caching.fan_out, peers=CACHES, is_plain=True,
        group="Origins and caches", also=(
            ("half have it", "last_byte_p50_ms", "ms", 0), ("99 % have a first byte", "first_byte_p99_ms", "ms", 0),
            ("half have a first byte", "first_byte_p50_ms", "ms", 0), ("requests at the origin", "origin_requests", "", 0),
        ),
    ),
    Figure(
        "v", "1 MiB objects in the cache", "CPU s/GiB", 3, at_most(0.5), caching.hit, peers=CACHES, files=("segment",),
        group="Origins and caches",
    ),
    Figure(
        "4a", "1 KiB object in the cache", "CPU µs", 1, None, caching.small_hit("small", "/keep/small-{}.bin"), peers=CACHES,
        files=("small",), group="Origins and caches",
    ),
    Figure(
        "4b", "100 KiB objects in the cache", "CPU µs", 1, None, caching.small_hit("pieces", "/keep/piece-{}.bin"), peers=CACHES,
        files=("piece",), group="Origins and caches",
    ),
    Figure(
        "w", "hits under Zipf, capacity for an eighth", "%", 1, None, caching.hit_ratio, peers=CACHES, is_plain=True,
        less_is_better=False, group="Origins and caches",
        also=(
            ("space taken of the 125 MiB allowed", "kept_mib", "MiB", 0),
            ("restarted, until hits are back", "restart_s", "s", 1),
        ),
    ),
    Figure(
        "y", "memory per cached object", "bytes", 0, None, caching.kept_memory, peers=CACHES, is_plain=True, rounds_max=1,
        group="Origins and caches",
    ),
    Figure(
        "z", "lower bounds: sendfile and sealing alone", "CPU s/GiB", 3, None, measures.physics(_sealing), peers=(),
        is_plain=True, files=("bulk",), also=(
            ("plain sendfile", "sendfile_cpu_s_per_gib", "CPU s/GiB", 3),
            ("sealing alone", "sealing_cpu_s_per_gib", "CPU s/GiB", 3),
        ),
    ),
    Figure(
        "2a", "1 GiB file on one stream", "CPU s/GiB", 3, at_most(0.5), http2.bulk, files=("bulk",), group="HTTP/2",
        also=(
            ("over HTTP/1.1, the same client", "http1_cpu_s_per_gib", "CPU s/GiB", 3),
            ("of its own HTTP/1.1", "of_http1", "times", 2),
        ),
    ),
    _http2("2b", "1 MiB files, 50 connections of 10 streams", SEGMENT_PATHS, 10, None, files=("segment",)),
    _http2("2c", "1 KiB file, 50 connections of 20 streams", ["/small.bin"], 20, at_least(2.0), peers=ALL),
    _http2("2d", "1 KiB files, the same, 200 different", SMALL_PATHS, 20, at_least(2.0), files=("small",)),
    Figure(
        "2e", "idle connection", "KiB", 2, at_most(8.0, "value"), http2.idle_memory, peers=ALL, group="HTTP/2",
    ),
    Figure(
        "2f", "manifest beside ten segments: first byte", "ms", 2, None, http2.manifest, files=("segment",), group="HTTP/2",
        also=(("with a priority of the client", "urgent_ms", "ms", 2),),
    ),
    Figure("5a", "1 GiB file on one stream", "CPU s/GiB", 3, at_most(0.7), http3.bulk(), files=("bulk",), group="HTTP/3"),
    Figure(
        "5b", "1 MiB files, 50 connections of 10 streams", "CPU µs", 0, at_most(0.7), http3.requests("/segment-{}.bin", SEGMENTS, 10),
        files=("segment",), group="HTTP/3",
    ),
    Figure(
        "5c", "1 KiB file, 50 connections of 20 streams", "CPU µs", 1, at_most(1.2), http3.requests("/small.bin", 0, 20), group="HTTP/3",
    ),
    Figure(
        "5d", "1 GiB file on one stream, a packet of two acknowledged", "CPU s/GiB", 3, at_most(0.7), http3.bulk(ack_every=2), files=("bulk",),
        group="HTTP/3",
    ),
    _relayed("3a", "1 GiB body relayed over TLS", relaying.bulk, ("bulk",), at_most(0.5)),
    _relayed("3b", "1 GiB body relayed without TLS", relaying.bulk, ("bulk",), at_most(0.5), is_plain=True),
    _relayed("3c", "1 MiB bodies relayed over TLS, 50 connections", relaying.segments, ("segment",), at_most(0.5)),
    _relayed(
        "3d", "1 MiB bodies relayed without TLS, 50 connections", relaying.segments, ("segment",), at_most(0.5), is_plain=True,
    ),
    _relayed("3e", "memory per relayed body that is not read, over TLS", relaying.held_memory, ("bulk",), unit="KiB"),
    _relayed(
        "3f", "memory per relayed body that is not read, without TLS", relaying.held_memory, ("bulk",), unit="KiB", is_plain=True,
    ),
]  # fmt: skip
