"""Checks before a measurement: both servers send the right bytes and agree on the same TLS parameters."""

import hashlib
import os
import re
import subprocess

from .tls import GROUP

LIMIT_S = 60
CHUNK = 1 << 20


def negotiated(server):
    """The parameters that `openssl s_client`, with the clients' settings, agrees on with the server."""
    environment = {**os.environ, "OPENSSL_CONF": str(server.fixtures.openssl_conf(server.scene.tls))}
    probe = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", "localhost"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=LIMIT_S,
    )  # fmt: skip
    return parse_negotiated(probe.stdout)


def parse_negotiated(said):
    """The facts in the words of `s_client`; a missing one is None."""
    patterns = {
        "cipher": r"Cipher is (\S+)",
        "version": r"New, (TLSv[\d.]+)",
        "group": r"Server Temp Key: (\w+)",
        "signature": r"Peer signature type: (\S+)",
    }
    found = {fact: re.search(pattern, said) for fact, pattern in patterns.items()}
    return {fact: match and match.group(1) for fact, match in found.items()}


def require_same_tls(server):
    """Fail unless the server negotiates exactly the pinned parameters."""
    tls = server.scene.tls
    wanted = {"cipher": tls.suite, "version": f"TLSv{tls.version}", "group": GROUP, "signature": tls.signature}
    got = negotiated(server)
    if got != wanted:
        raise RuntimeError(f"{server.name} negotiated {got}, wanted {wanted}")
    return got


def require_exact_bytes(server):
    """Fail unless curl receives each kind of file exactly as it is on disk."""
    root = server.fixtures.root
    names = ("small.bin", "segment-7.bin", "piece-7.bin", "bulk.bin")
    for name in names if server.serves_large_files else names[:1]:
        if (root / name).exists() and _fetched(server, name) != _digest(open(root / name, "rb")):
            raise RuntimeError(f"{server.name} did not send {name} as it is on disk")


def _fetched(server, name):
    environment = {**os.environ, "OPENSSL_CONF": str(server.fixtures.openssl_conf(server.scene.tls))}
    with subprocess.Popen(
        ["curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time", str(LIMIT_S),
         f"https://localhost:{server.port}/{name}"],
        stdout=subprocess.PIPE, env=environment,
    ) as curl:  # fmt: skip
        digest = _digest(curl.stdout)
    if curl.returncode != 0:
        raise RuntimeError(f"curl ended with {curl.returncode} fetching {name} from {server.name}")
    return digest


def _digest(stream):
    digest = hashlib.sha256()
    with stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
