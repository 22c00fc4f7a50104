"""Sends one file to each connection by `sendfile`: the kernel's cost of moving bytes.

Ignores the request; the response is a head and the file. No TLS, hardly any HTTP, one connection at a time: a lower bound
for every server.
"""

import os
import select
import socket
import sys

PIECE = SEND_BUFFER = 4 << 20  # the best of six ways tried: without the buffer it takes a third more


def serve(listener, file, size):
    while True:
        connection, _ = listener.accept()
        with connection:
            if not connection.recv(65536):
                continue
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
            send(connection, file, size)


def send(connection, file, size):
    """Without blocking, as servers do."""
    connection.setblocking(False)
    with select.epoll() as ready:
        ready.register(connection, select.EPOLLOUT | select.EPOLLET)
        sent = 0
        while sent < size:
            try:
                sent += os.sendfile(connection.fileno(), file.fileno(), sent, min(PIECE, size - sent))
            except BlockingIOError:
                ready.poll()


def main(port, path):
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener, open(path, "rb") as file:
        serve(listener, file, os.fstat(file.fileno()).st_size)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), sys.argv[2])
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(1)
