"""Stands before a certificate authority and changes the time that it tells: shifted.py PORT CHAIN KEY AUTHORITY-PORT CA DAYS"""

import datetime
import email.utils
import http.client
import http.server
import ssl
import sys

port, chain, key, authority, ca, days = sys.argv[1:]
trust = ssl.create_default_context(cafile=ca)


class Shifted(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPSConnection("127.0.0.1", int(authority), context=trust, timeout=30)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() == "date":
                time = email.utils.parsedate_to_datetime(value) + datetime.timedelta(int(days))
                value = email.utils.format_datetime(time, usegmt=True)
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_GET

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Shifted)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
