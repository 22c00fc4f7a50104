"""Fixtures of a run: a certificate, files, and the clients' TLS settings."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .tls import DEFAULT, KEYS

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SEGMENTS = 200  # different files of 1 MiB, of 100 KiB and of 1 KiB; the client's script (clients/wrk.lua) counts to the same number
BLOCK = 16 * MIB
BODY_BYTES = 100 * MIB  # the body of uncacheable origin responses
FILES = ("segment", "piece", "small", "bulk", "body")


@dataclass(frozen=True)
class Fixtures:
    """Paths of all files of a run, below one directory that the caller deletes."""

    home: Path
    memory: Path  # the same on tmpfs, for memory tiers

    @property
    def root(self):
        return self.home / "www"

    def chain(self, key="ec"):
        return self.home / f"{key}.crt"

    def key(self, key="ec"):
        return self.home / f"{key}.key"

    def openssl_conf(self, tls=DEFAULT):
        """The clients' settings for what a figure has agreed on; written when first asked for."""
        path = self.home / f"{tls.name}.cnf"
        if not path.exists():
            path.write_text(tls.openssl_conf())
        return path


def make(home, memory, bulk_bytes, wanted):
    """Write the certificates and the files a run needs below `home`; `wanted` names kinds of files."""
    made = Fixtures(home, memory)
    made.root.mkdir(parents=True)
    for directory in (home, memory):
        os.chmod(directory, 0o755)  # nginx's worker drops root and must still reach the files
    for key in KEYS:
        subprocess.run(certificate_command(made, key), check=True, capture_output=True, timeout=30)
    noise = os.urandom(BLOCK)
    (made.root / "small.bin").write_bytes(noise[:KIB])
    (made.root / "index.m3u8").write_text("#EXTM3U\n" + "".join(f"#EXTINF:4,\nsegment-{i}.bin\n" for i in range(60)))
    (made.root / "object.bin").write_bytes(noise[: 64 * KIB])
    for name, size in (("segment", MIB), ("piece", 100 * KIB), ("small", KIB)):
        if name in wanted:
            for i in range(SEGMENTS):
                start = i * 4093  # each file begins at another offset of the noise, so all differ
                (made.root / f"{name}-{i}.bin").write_bytes(noise[start : start + size])
    for name, size in (("bulk", bulk_bytes), ("body", BODY_BYTES)):
        if name in wanted:
            with open(made.root / f"{name}.bin", "wb") as file:
                for start in range(0, size, BLOCK):
                    file.write(noise[: size - start])
    return made


def certificate_command(made, key="ec"):
    """A self-signed certificate for localhost: ECDSA with P-256, or RSA with 2048 bits."""
    return [
        "openssl", "req", "-x509", *KEYS[key], "-nodes",
        "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", str(made.key(key)), "-out", str(made.chain(key)),
    ]  # fmt: skip


def fill_page_cache(made):
    """Read every file once, so that no page is missing in a round."""
    buffer = bytearray(MIB)
    for path in sorted(made.root.iterdir()):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
