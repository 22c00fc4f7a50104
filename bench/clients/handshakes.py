"""Makes new TLS connections one after another for a while, all full or all resumed, and counts them.

Each is: TCP connect, handshake, then in the same flight as the client's Finished either close_notify or one small
request, read to the end, close. Which version, suite and group are offered stands in the OpenSSL configuration.
Prints one JSON object.
"""

import json
import socket
import ssl
import sys
import time

ROOM = 1 << 16
STALL_LIMIT_S = 10
REQUEST = b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ANSWER_BYTES_MIN = 1024


class Client:
    """Makes connections to one port; with a session of an earlier connection it offers that."""

    def __init__(self, port):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        # Python puts a list of its own over the configured one; the server chooses, and what it chose is checked.
        self.port, self.session, self.agreed = port, None, set()

    def connection(self, request):
        """One connection; raises when its handshake was not of the kind wanted, or a request got no answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=STALL_LIMIT_S) as sock:
            tls, incoming, outgoing = self._handshake(sock)
            if tls.session_reused != (self.session is not None):
                raise ConnectionError("resumed, not a full handshake" if tls.session_reused else "not resumed")
            self.agreed.add(tls.cipher()[:2])
            if request:
                tls.write(REQUEST)
            else:
                say_goodbye(tls)
            sock.sendall(outgoing.read())
            received = drain(sock)
            if request and received < ANSWER_BYTES_MIN:
                raise ConnectionError(f"{received} bytes are no answer")

    def take_session(self):
        """Fetch the small file over one connection and keep the session that came with it."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=STALL_LIMIT_S) as sock:
            tls, incoming, outgoing = self._handshake(sock)
            tls.write(REQUEST)
            sock.sendall(outgoing.read())
            while received := sock.recv(ROOM):
                incoming.write(received)
            try:
                while tls.read(ROOM):
                    pass
            except ssl.SSLError:
                pass  # the end without close_notify is as good an end here
            self.session = tls.session
            if not self.session.has_ticket:
                raise ConnectionError("the server gave no ticket")

    def _handshake(self, sock):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=self.session)
        while True:
            try:
                tls.do_handshake()
                return tls, incoming, outgoing
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                received = sock.recv(ROOM)
                if not received:
                    raise ConnectionError("closed during the handshake")
                incoming.write(received)


def say_goodbye(tls):
    """Put close_notify into the outgoing bytes."""
    try:
        tls.unwrap()
    except ssl.SSLWantReadError:
        pass


def drain(sock):
    """Read to the server's end; returns the bytes of ciphertext."""
    total = 0
    while received := sock.recv(ROOM):
        total += len(received)
    return total


def main(port, seconds, kind, request):
    client = Client(port)
    if kind == "resumed":
        client.take_session()
    done, faults = 0, {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            client.connection(request)
            done += 1
        except OSError as fault:
            faults[repr(fault)] = faults.get(repr(fault), 0) + 1
            time.sleep(0.01)
    print(json.dumps({"handshakes": done, "faults": faults, "agreed": sorted(client.agreed)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4] == "request")
