"""A slow origin: 200 ms to the first byte of each response, 500 ms to the last.

Serves one object of 4 MiB at every path, whole or in ranges. `/count` returns the number of requests and of bytes of
bodies sent.
"""

import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OBJECT = os.urandom(1 << 20) * 4
FIRST_BYTE_S, LAST_BYTE_S = 0.2, 0.5
STEPS = 16
counted = {"requests": 0, "bytes": 0}
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/count":
            said = f"{counted['requests']} {counted['bytes']}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
            return
        first, last = 0, len(OBJECT) - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(last, int(asked[2] or last))
        length = last - first + 1
        with lock:
            counted["requests"] += 1
            counted["bytes"] += length
        time.sleep(FIRST_BYTE_S)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(OBJECT)}")
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"one"')
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        for step in range(STEPS):
            start, end = (first + length * part // STEPS for part in (step, step + 1))
            self.wfile.write(OBJECT[start:end])
            self.wfile.flush()
            if step < STEPS - 1:
                time.sleep((LAST_BYTE_S - FIRST_BYTE_S) / (STEPS - 1))

    def log_message(self, *_):
        pass


def main(port):
    ThreadingHTTPServer.request_queue_size = 1024
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
