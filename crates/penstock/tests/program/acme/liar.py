"""A certificate authority that does not do what one does: liar.py PORT CHAIN KEY HOW, where HOW is deaf, silent,
slow, large, garbage or endless.
"""

import http.server
import socket
import ssl
import sys
import time

port, chain, key, how = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]


class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if how == "silent":
            time.sleep(600)
            return
        if how == "slow":
            # Not even the head is there in time.
            for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}":
                self.wfile.write(bytes([byte]))
                time.sleep(1)
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if how == "garbage":
            self.send_header("Content-Length", "12")
            self.end_headers()
            self.wfile.write(b'{"newNonce":')
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # Without an end, or a byte at a time.
        piece, pause = (b"x" * 65536, 0) if how == "large" else (b"x", 0.2)
        try:
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(pause)
        except OSError:
            pass

    do_HEAD = do_POST = do_GET

    def log_message(self, *words):
        pass


if how == "deaf":
    # Connections are made, and no handshake is answered.
    listener = socket.create_server(("127.0.0.1", port))
    time.sleep(600)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Liar)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
