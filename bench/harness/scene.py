"""The settings of every server in a figure: its TLS, its origin, its cache."""

from dataclasses import dataclass

from .tls import DEFAULT, Tls

MIB = 1 << 20


@dataclass(frozen=True)
class Scene:
    """One setting of a server. Without an origin it serves the run's files."""

    tls: Tls = DEFAULT
    is_plain: bool = False  # HTTP instead of HTTPS
    is_http2: bool = False  # HTTP/2 beside HTTP/1.1
    is_http3: bool = False  # HTTP/3 beside HTTP/1.1
    origin: int | None = None  # port of the origin on 127.0.0.1
    relays: bool = False  # relays the origin's responses and keeps none
    cache_bytes: int = 0  # size of the cache; 0 is none
    cache_objects: int = 0  # how many objects fit, if all have one size and are evicted; otherwise 0
    slice_bytes: int = MIB  # the size of slices, for servers with slices

    @property
    def scheme(self):
        return "http" if self.is_plain else "https"
