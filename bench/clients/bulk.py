"""Fetches one file over a connection N times, as fast as a client can: the response is received, not decrypted.

Handshake and request are real. After that the kernel discards the ciphertext (`MSG_TRUNC`), so the client
does not delay the server, and its core does little but acknowledge. curl checks the bytes in another step. Prints one JSON object.
"""

import json
import socket
import ssl
import sys
import time
from urllib.parse import urlsplit

CHUNK = 1 << 20
STALL_LIMIT_S = 20


def connect(port):
    """Returns a TCP connection with a finished TLS handshake, and its TLS object, which reads and writes memory."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=STALL_LIMIT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            received = sock.recv(CHUNK)
            if not received:
                raise ConnectionError("closed during the handshake")
            incoming.write(received)
    return sock, tls, outgoing


def fetch(scheme, port, path):
    """Returns the received bytes, the number of requests, and the suite."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    if scheme == "http":
        sock, suite = socket.create_connection(("127.0.0.1", port), timeout=STALL_LIMIT_S), "none"
        sock.sendall(request)
    else:
        sock, tls, outgoing = connect(port)
        suite = tls.cipher()[0]
        tls.write(request)
        sock.sendall(outgoing.read())
    buffer = bytearray(CHUNK)
    total = calls = 0
    with sock:
        while received := sock.recv_into(buffer, CHUNK, socket.MSG_TRUNC):
            total += received
            calls += 1
    return total, calls, suite


def main(url, times):
    parts = urlsplit(url)
    cpu, wall = time.process_time_ns(), time.monotonic_ns()
    fetched = [fetch(parts.scheme, parts.port, parts.path) for _ in range(times)]
    print(json.dumps({
        "wire_bytes": sum(one[0] for one in fetched), "recv_calls": sum(one[1] for one in fetched), "cipher": fetched[0][2],
        "client_cpu_s": (time.process_time_ns() - cpu) / 1e9, "client_wall_s": (time.monotonic_ns() - wall) / 1e9,
    }))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
