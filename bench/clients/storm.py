"""Begins many new TLS connections at one moment, with one small request on each, and tells when each was served.

All ClientHellos are made before the clock starts: the first thing a server sees is a full queue. The clock starts
once for all. Prints one JSON object with milliseconds.
"""

import json
import resource
import select
import socket
import ssl
import sys
import time

ROOM = 1 << 16
LIMIT_S = 20
REQUEST = b"GET /small.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ANSWER_BYTES_MIN = 1024


class Viewer:
    """One connection: what is left to do after each arrival of bytes."""

    def __init__(self, context):
        self.sock = socket.socket()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.received = 0
        self.asked = False
        self._shake_hands()

    def _shake_hands(self):
        try:
            self.tls.do_handshake()
            self.tls.write(REQUEST)
            self.asked = True
        except ssl.SSLWantReadError:
            pass

    def begin(self, port):
        self.sock.connect(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.sock.send(self.outgoing.read())

    def go_on(self):
        """Take what has arrived; true once the server has ended the connection behind its answer."""
        received = self.sock.recv(ROOM)
        if not received:
            if self.received < ANSWER_BYTES_MIN:
                raise ConnectionError("closed before the answer")
            return True
        if self.asked:
            self.received += len(received)  # not decrypted: the client's core is not what is measured
            return False
        self.incoming.write(received)
        self._shake_hands()
        if self.outgoing.pending:
            self.sock.send(self.outgoing.read())
        return False


def main(port, count):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 64), hard))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    viewers = [Viewer(context) for _ in range(count)]
    waiting, poll = {}, select.epoll(count)
    cpu, start = time.process_time_ns(), time.monotonic_ns()
    for viewer in viewers:
        viewer.begin(port)
        waiting[viewer.sock.fileno()] = viewer
        poll.register(viewer.sock, select.EPOLLIN)
    served, errors = [], {}
    while waiting:
        ready = poll.poll(LIMIT_S, 64)
        if not ready:
            errors["stalled"] = len(waiting)
            break
        for descriptor, _ in ready:
            try:
                if not waiting[descriptor].go_on():
                    continue
                served.append((time.monotonic_ns() - start) / 1e6)
            except OSError as fault:
                errors[type(fault).__name__] = errors.get(type(fault).__name__, 0) + 1
            waiting.pop(descriptor).sock.close()
    wall = time.monotonic_ns() - start
    served.sort()
    print(json.dumps({
        "served": len(served), "errors": errors,
        "last_ms": served[-1], "p50_ms": served[len(served) // 2], "p99_ms": served[len(served) * 99 // 100],
        "client_busy_share": (time.process_time_ns() - cpu) / wall,
    }))  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
