"""What the servers serve and prove who they are with: a certificate, files, and the clients' TLS settings."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CIPHER = "TLS_AES_128_GCM_SHA256"
GROUP = "X25519"
SEGMENTS = 200  # different 1 MiB files; the client's script (clients/wrk.lua) counts to the same number
BLOCK = 16 * MIB

# One cipher suite and one group offered, so that both servers can only choose the same.
OPENSSL_CONF = f"""\
openssl_conf = init
[init]
ssl_conf = ssl
[ssl]
system_default = client
[client]
MinProtocol = TLSv1.3
Ciphersuites = {CIPHER}
Groups = {GROUP}
"""


@dataclass(frozen=True)
class Fixtures:
    """Paths of everything made for a run; all of it below one directory that the caller deletes."""

    home: Path

    @property
    def root(self):
        return self.home / "www"

    @property
    def chain(self):
        return self.home / "ec.crt"

    @property
    def key(self):
        return self.home / "ec.key"

    @property
    def openssl_conf(self):
        return self.home / "openssl.cnf"


def make(home, bulk_bytes, with_bulk, with_segments):
    """Write the certificate, the files a run needs and the clients' settings below `home`."""
    made = Fixtures(home)
    made.root.mkdir(parents=True)
    os.chmod(home, 0o755)  # nginx gives up root in its worker and must still reach the files
    made.openssl_conf.write_text(OPENSSL_CONF)
    subprocess.run(certificate_command(made), check=True, capture_output=True, timeout=30)
    noise = os.urandom(BLOCK)
    (made.root / "small.bin").write_bytes(noise[:KIB])
    if with_segments:
        for i in range(SEGMENTS):
            start = i * 4093  # each file begins elsewhere in the noise: all differ
            (made.root / f"segment-{i:03}.bin").write_bytes(noise[start : start + MIB])
    if with_bulk:
        with open(made.root / "bulk.bin", "wb") as bulk:
            for _ in range(bulk_bytes // BLOCK):
                bulk.write(noise)
    return made


def certificate_command(made):
    """An ECDSA P-256 certificate for localhost, signed by itself."""
    return [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", str(made.key), "-out", str(made.chain),
    ]  # fmt: skip


def fill_page_cache(made):
    """Read every file once, so that no round finds a page missing."""
    buffer = bytearray(MIB)
    for path in sorted(made.root.iterdir()):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
