"""What a figure has every server do: which TLS it speaks, where its bytes come from, what it may keep."""

from dataclasses import dataclass

from .tls import DEFAULT, Tls

MIB = 1 << 20


@dataclass(frozen=True)
class Scene:
    """One setting of a server. Without an origin it serves the run's files."""

    tls: Tls = DEFAULT
    is_plain: bool = False  # HTTP instead of HTTPS
    origin: int | None = None  # port of the HTTP server on 127.0.0.1 whose answers it passes on
    cache_bytes: int = 0  # how much of those answers it may keep; 0 is nothing
    cache_objects: int = 0  # how many objects fit, where all are of one size and have to take turns; otherwise 0
    slice_bytes: int = MIB  # the part of an object that is asked for and kept as one, where a server has such parts

    @property
    def scheme(self):
        return "http" if self.is_plain else "https"
