"""Makes new TLS 1.3 connections one after another for a while, never resuming, and counts them.

Each is: TCP connect, full handshake, then in the same flight as the client's Finished either close_notify or one
small request, read to the end, close. Prints one JSON object.
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


def connection(context, port, request):
    """One connection; raises when its handshake was not a full one, or a request got no answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=STALL_LIMIT_S) as sock:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                received = sock.recv(ROOM)
                if not received:
                    raise ConnectionError("closed during the handshake")
                incoming.write(received)
        if tls.session_reused:
            raise ConnectionError("resumed, not a full handshake")
        if request:
            tls.write(REQUEST)
        else:
            say_goodbye(tls)
        sock.sendall(outgoing.read())
        received = drain(sock)
        if request and received < ANSWER_BYTES_MIN:
            raise ConnectionError(f"{received} bytes are no answer")


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


def main(port, seconds, request):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    done, faults = 0, {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            connection(context, port, request)
            done += 1
        except OSError as fault:
            faults[repr(fault)] = faults.get(repr(fault), 0) + 1
            time.sleep(0.01)
    print(json.dumps({"handshakes": done, "faults": faults}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "request")
