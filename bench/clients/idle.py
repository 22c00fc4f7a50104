"""Opens many keep-alive TLS connections, sends one small request on each, and holds them.

Prints `ready` with the count when all are idle, waits for a line on standard input, then prints how many are still
open. The harness reads the server's memory in between.
"""

import json
import resource
import socket
import ssl
import sys

STALL_LIMIT_S = 10
REQUEST = b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\n\r\n"


def unverified():
    """Makes one context for all connections, because making it takes longer than a handshake. Sessions are not shared."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect(port, context):
    """A TLS connection."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=STALL_LIMIT_S)
    # Without it the request waits for the acknowledgement of the handshake's last flight, up to 40 ms.
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(raw, server_hostname="localhost")


def ask(sock, path="/small.bin"):
    """Sends one request and reads its response on a connection that stays open. Returns the connection."""
    sock.sendall(REQUEST.replace(b"/small.bin", path.encode()))
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += receive(sock)
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b" 200" not in lines[0]:
        raise ConnectionError(f"answered {lines[0]!r}")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < length:
        body += receive(sock)
    return sock


def receive(sock):
    received = sock.recv(1 << 14)
    if not received:
        raise ConnectionError("closed during an answer")
    return received


def still_open(sock):
    """Whether the server has neither closed the connection nor sent more bytes."""
    sock.settimeout(0)
    try:
        return bool(sock.recv(1))
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False


def main(port, count):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 64), hard))
    context = unverified()
    held = [ask(connect(port, context)) for _ in range(count)]
    print(json.dumps({"ready": len(held)}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"open": sum(still_open(sock) for sock in held)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
