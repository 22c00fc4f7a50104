"""Clients that ask for one thing again and again, for counts of instructions."""

import re
import socket
import ssl

LIMIT_S = 60
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW = (1 << 30).to_bytes(4, "big")
# Indexed fields of HPACK's static table.
GET, HTTP, HTTPS = b"\x82", b"\x86", b"\x87"
AUTHORITY, PATH = 1, 4


def connected(port, tls, protocol):
    """A connection to a server of this machine, over TLS if `tls` is given."""
    sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
    if not tls:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(sock, server_hostname="localhost")


class Connection:
    """A connection that is closed at the end of its block."""

    def __init__(self, port, tls, protocol):
        self.socket = connected(port, tls, protocol)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _receive(self):
        if not (received := self.socket.recv(1 << 18)):
            raise RuntimeError("the server closed the connection")
        return received


class KeptConnection(Connection):
    """A client of HTTP/1.1 with one connection."""

    def __init__(self, port, path, tls, more=""):
        super().__init__(port, tls, "http/1.1")
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()

    def ask(self):
        """One request and its response, whose length has to be announced."""
        self.socket.sendall(self.request)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._receive()
        head, body = got.split(b"\r\n\r\n", 1)
        left = int(re.search(rb"(?i)\r\ncontent-length: (\d+)", head)[1]) - len(body)
        while left > 0:
            left -= len(self._receive())


class Http2Connection(Connection):
    """A client of HTTP/2 with one connection and one stream at a time; by prior knowledge without TLS."""

    def __init__(self, port, path, tls):
        super().__init__(port, tls, "h2")
        fields = GET + (HTTPS if tls else HTTP) + literal(AUTHORITY, b"localhost") + literal(PATH, path.encode())
        self.fields, self.stream, self.got = fields, -1, b""
        # Windows that no response fills: SETTINGS_INITIAL_WINDOW_SIZE, and that of the connection.
        settings = frame(SETTINGS, 0, 0, (4).to_bytes(2, "big") + WINDOW)
        self.socket.sendall(PREFACE + settings + frame(WINDOW_UPDATE, 0, 0, WINDOW))

    def ask(self):
        """One request and its response."""
        self.stream += 2
        self.socket.sendall(frame(HEADERS, END_HEADERS | END_STREAM, self.stream, self.fields))
        while True:
            kind, flags, stream, payload = self._next()
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, payload))
            elif kind not in (DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE):
                raise RuntimeError(f"the server sent a frame of type {kind}: {payload!r}")
            elif stream == self.stream and kind in (DATA, HEADERS) and flags & END_STREAM:
                return

    def _next(self):
        while len(self.got) < 9 or len(self.got) < 9 + int.from_bytes(self.got[:3], "big"):
            self.got += self._receive()
        end = 9 + int.from_bytes(self.got[:3], "big")
        head, payload, self.got = self.got[:9], self.got[9:end], self.got[end:]
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload


class OwnConnections:
    """A client that makes a connection without TLS for each request, and says so."""

    def __init__(self, port, path):
        self.port, self.path = port, path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self):
        with KeptConnection(self.port, self.path, None, "Connection: close\r\n") as connection:
            connection.ask()


def frame(kind, flags, stream, payload):
    """A frame of HTTP/2 (RFC 9113 section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def literal(name, value):
    """A field with a name of the static table, without indexing (RFC 7541 section 6.2.2)."""
    if len(value) > 126:
        raise ValueError("the value is too long")
    return bytes((name, len(value))) + value
