"""A client of HTTP/2 that sends frame by frame (RFC 9113 §4.1), for what no other client measures.

`idle PORT COUNT` opens connections, sends one small request on each, and holds them. It prints `ready` with the count, waits
for a line on standard input, then prints how many are still open.

`manifest PORT TIMES [PRIORITY]` requests ten segments, and the manifest once they are under way, on the same connection. It
prints the milliseconds from each request for the manifest to the first byte of its body.
"""

import json
import resource
import socket
import ssl
import sys
import time

STALL_LIMIT_S = 10
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW = (1 << 31) - 1
INITIAL_WINDOW = 65_535
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SEGMENTS = 10


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def block(fields):
    """A field block without compression; names and values are shorter than 127 bytes."""
    parts = (bytes((0, len(name), *name, len(value), *value)) for name, value in fields)
    return b"".join(parts)


def get(stream, path, *more):
    fields = ((b":method", b"GET"), (b":scheme", b"https"), (b":path", path), (b":authority", b"localhost"), *more)
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block(fields))


def unverified():
    """Makes one context for all connections, because making it takes longer than a handshake. Sessions are not shared."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Connection:
    """A connection on which the windows are as large as they can be."""

    def __init__(self, port, context):
        raw = socket.create_connection(("127.0.0.1", port), timeout=STALL_LIMIT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = context.wrap_socket(raw, server_hostname="localhost")
        if self.sock.selected_alpn_protocol() != "h2":
            raise ConnectionError(f"the server chose {self.sock.selected_alpn_protocol()} instead of h2")
        self.received = b""
        window = (4).to_bytes(2, "big") + WINDOW.to_bytes(4, "big")
        more = (WINDOW - INITIAL_WINDOW).to_bytes(4, "big")
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0, window) + frame(WINDOW_UPDATE, 0, 0, more))

    def _take(self, count):
        while len(self.received) < count:
            received = self.sock.recv(1 << 16)
            if not received:
                raise ConnectionError("closed during an answer")
            self.received += received
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def next(self):
        """The next frame of a stream: its type, flags, stream and payload. Answers SETTINGS and PING."""
        while True:
            header = self._take(9)
            kind, flags, stream = header[3], header[4], int.from_bytes(header[5:], "big")
            payload = self._take(int.from_bytes(header[:3], "big"))
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.sock.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            if kind in (RST_STREAM, GOAWAY):
                raise ConnectionError(f"frame of type {kind} with {payload.hex()}")
            if kind in (DATA, HEADERS):
                return kind, flags, stream, payload

    def read(self, streams):
        """Read until all these streams have ended; returns the bytes of their bodies."""
        streams, count = set(streams), 0
        while streams:
            kind, flags, stream, payload = self.next()
            count += len(payload) if kind == DATA else 0
            if flags & END_STREAM:
                streams.discard(stream)
        return count

    def is_open(self):
        """Whether the server has not closed the connection."""
        self.sock.settimeout(0)
        try:
            return bool(self.sock.recv(1))
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False


def idle(port, count):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 64), hard))
    context = unverified()
    held = []
    for _ in range(count):
        connection = Connection(port, context)
        connection.sock.sendall(get(1, b"/small.bin"))
        if connection.read([1]) != 1024:
            raise ConnectionError("a wrong body")
        # The acknowledgement of the client's SETTINGS may follow the response.
        connection.sock.settimeout(0)
        held.append(connection)
    print(json.dumps({"ready": len(held)}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"open": sum(connection.is_open() for connection in held)}), flush=True)


def manifest(port, times, priority):
    """Half of the windows would be used up after a thousand rounds: each round has a connection of its own."""
    context, taken = unverified(), []
    more = [(b"priority", priority.encode())] if priority else []
    for _ in range(times):
        connection = Connection(port, context)
        segments = range(1, 2 * SEGMENTS, 2)
        connection.sock.sendall(b"".join(get(stream, b"/segment-%d.bin" % stream) for stream in segments))
        left = set(segments)
        while connection.next()[0] != DATA:
            pass
        last = 2 * SEGMENTS + 1
        begin = time.perf_counter()
        connection.sock.sendall(get(last, b"/index.m3u8", *more))
        while True:
            kind, flags, stream, _ = connection.next()
            if flags & END_STREAM:
                left.discard(stream)
            if stream == last and kind == DATA:
                break
        taken.append((time.perf_counter() - begin) * 1e3)
        connection.read(left)
        connection.sock.close()
    taken.sort()
    print(json.dumps({"first_byte_ms": taken[len(taken) // 2], "worst_ms": taken[-1], "times": times}))


if __name__ == "__main__":
    if sys.argv[1] == "idle":
        idle(int(sys.argv[2]), int(sys.argv[3]))
    else:
        manifest(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
