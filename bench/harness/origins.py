"""The origins of caches and proxies. They run on the client's core."""

import re
import sys
import urllib.request
from pathlib import Path

from .server import CLIENT_CORE, Server
from .servers import Nginx

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
LIMIT_S = 20

ORIGIN_CONF = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 8192;
error_log {home}/nginx-error.log crit;
pid {home}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
    default_type application/octet-stream;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    open_file_cache max=1000;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root};
        location = /count {{ stub_status; }}
        location /keep/ {{ alias {root}/; add_header Cache-Control "max-age=3600"; }}
        location /pass/ {{ alias {root}/; add_header Cache-Control "no-store"; }}
        location /objects/ {{ rewrite ^ /object.bin break; add_header Cache-Control "max-age=3600"; }}
        location /tiny/ {{ rewrite ^ /small.bin break; add_header Cache-Control "max-age=3600"; }}
    }}
}}
"""


class FileOrigin(Nginx):
    """nginx with the run's files: `/keep/` is cacheable, `/pass/` is not, `/objects/N` and `/tiny/N` exist for any number."""

    name = "origin"
    core = CLIENT_CORE

    def config(self):
        return ORIGIN_CONF.format(home=self.home, port=self.port, root=self.fixtures.root)

    def requests(self):
        """The number of requests, without those for this number."""
        told = re.search(r"requests\s+\d+ \d+ (\d+)", _fetched(self.port))
        self._asked = getattr(self, "_asked", 0) + 1
        return int(told[1]) - self._asked


class SlowOrigin(Server):
    """200 ms to the first byte, 500 ms to the last, of one object of 4 MiB."""

    name = "slow-origin"
    core = CLIENT_CORE

    def command(self):
        return [sys.executable, str(CLIENTS / "slow_origin.py"), str(self.port)]

    def counted(self):
        """Requests, and bytes of bodies."""
        requests, size = _fetched(self.port).split()
        return int(requests), int(size)


class PlainSendfile(Server):
    """No server: a file sent by `sendfile`, on the server's core."""

    name = "sendfile"

    def command(self):
        path = self.fixtures.root / "bulk.bin"
        return [sys.executable, str(CLIENTS / "plain_sendfile.py"), str(self.port), str(path)]


def _fetched(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/count", timeout=LIMIT_S) as answer:
        return answer.read().decode()
