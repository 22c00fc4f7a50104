"""Fetches one file from a starting server as soon as it accepts connections.

Prints `armed` when ready, then reads the time of the server's start from standard input (monotonic nanoseconds,
one clock for all processes). Prints as one JSON object the time until the port accepted and the time until the
first byte of the response.
"""

import json
import socket
import ssl
import sys
import time

LIMIT_S = 10
PAUSE_S = 0.0002


def connect(port):
    """Connects as soon as the port accepts connections."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def main(port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    print("armed", flush=True)
    started_ns = int(sys.stdin.readline())
    raw = connect(port)
    # Without it the request waits for the acknowledgement of the handshake's last flight, up to 40 ms.
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted_ns = time.monotonic_ns()
    with context.wrap_socket(raw, server_hostname="localhost") as sock:
        sock.sendall(b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        first = sock.recv(1)
        first_ns = time.monotonic_ns()
    if first != b"H":
        raise ConnectionError(f"the answer begins with {first!r}")
    print(json.dumps({
        "accepted_ms": (accepted_ns - started_ns) / 1e6, "first_byte_ms": (first_ns - started_ns) / 1e6,
    }))  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]))
