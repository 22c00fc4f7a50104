"""Asks for a large body on many connections, reads its first bytes, and then reads no more.

Prints `ready` with the count when the server has stopped sending on all, waits for a line on standard input, then prints
how many are still open. The harness reads the server's memory in between.
"""

import json
import socket
import ssl
import sys
import time
from array import array
from fcntl import ioctl
from termios import FIONREAD
from urllib.parse import urlsplit

from idle import STALL_LIMIT_S, unverified

QUIET_S = 0.5  # without a byte on any connection


def begin(url, context):
    """A connection with a body under way."""
    sock = socket.create_connection(("127.0.0.1", url.port), timeout=STALL_LIMIT_S)
    stream = context.wrap_socket(sock, server_hostname="localhost") if url.scheme == "https" else sock
    stream.sendall(f"GET {url.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    first = stream.recv(1024)
    if b" 200" not in first.split(b"\r\n")[0]:
        raise ConnectionError(f"answered {first[:100]!r}")
    return stream


def waiting(sock):
    """Bytes that have come and were not read."""
    count = array("i", [0])
    ioctl(sock.fileno(), FIONREAD, count)
    return count[0]


def is_open(sock):
    """Whether the server has not reset the connection."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def main(url, count):
    context = unverified()
    held = [begin(url, context) for _ in range(count)]
    before, since = None, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        now = [waiting(sock) for sock in held]
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.05)
    print(json.dumps({"ready": len(held)}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"open": sum(map(is_open, held))}), flush=True)


if __name__ == "__main__":
    main(urlsplit(sys.argv[1]), int(sys.argv[2]))
