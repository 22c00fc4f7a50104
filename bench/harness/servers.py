"""The two servers: how each is configured, started, measured and ended.

Both get the same certificate, root, core and priority. nginx is configured as somebody who knows it would do for
static HTTPS on one core; Penstock runs with its defaults.
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import accounting
from .tls import DEFAULT

SERVER_CORE = 0
CLIENT_CORE = 1
START_LIMIT_S = 10
STOP_LIMIT_S = 5
PRIORITY = -10  # keeps other programs from cutting into a round; the same for servers and clients

NGINX_CONF = """\
daemon off;
worker_processes 1;
worker_cpu_affinity {mask};
worker_rlimit_nofile 16384;
error_log {home}/nginx-error.log crit;
pid {home}/nginx.pid;
events {{
    worker_connections 8192;
    multi_accept on;
}}
http {{
    default_type application/octet-stream;
    access_log off;
    server_tokens off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    output_buffers {output_buffers};
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    open_file_cache max=4096 inactive=600s;
    open_file_cache_valid 60s;
    server {{
        listen 127.0.0.1:{port} ssl reuseport backlog=4096;
        server_name localhost;
        root {root};
        ssl_certificate {chain};
        ssl_certificate_key {key};
        {tls}
        ssl_session_cache shared:sessions:16m;
        ssl_session_tickets on;
        ssl_buffer_size 16k;
    }}
}}
"""
OUTPUT_BUFFERS = "2 512k"

PENSTOCK_CONF = """\
workers: 1
affinity: true
listeners:
  - address: 127.0.0.1:{port}
    tls: true
tls:
  certificates:
    - {{chain: {chain}, key: {key}, default: true}}{tls}
sites:
  - hosts: ["*"]
    origin: {{directory: {root}}}
"""


def free_port():
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pin(core):
    """For `preexec_fn`: put the child on one core, ahead of the crowd where that is permitted."""

    def apply():
        os.sched_setaffinity(0, {core})
        os.setsid()  # the kernel may share out time by session first: then only a session of its own can be ahead
        try:
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(PRIORITY))
        except OSError:
            pass  # not permitted, or a kernel without groups

    return apply


class Server:
    """A server under measurement. Use as a context manager: it is ended by its pid, whatever happens."""

    name = ""

    def __init__(self, fixtures, tls=DEFAULT):
        self.fixtures = fixtures
        self.tls = tls
        self.port = free_port()
        self.process = None
        self.spawned_ns = 0
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=fixtures.home))
        self.home.chmod(0o755)

    def __enter__(self):
        self.spawn()
        try:
            self.wait_until_listening()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def command(self):
        raise NotImplementedError

    def config(self):
        raise NotImplementedError

    def spawn(self):
        """Start the program and note the moment just before."""
        command = self.command()
        with open(self.home / "stderr", "wb") as log:
            self.spawned_ns = time.monotonic_ns()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=pin(SERVER_CORE)
            )

    def wait_until_listening(self):
        """Return when the port accepts; fail with the program's own words when it ends or takes too long."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        said = (self.home / "stderr").read_text(errors="replace").strip()[-2000:]
        raise RuntimeError(f"{self.name} did not listen on port {self.port}: {said or 'it said nothing'}")

    def worker_pid(self):
        """The process whose threads do the serving."""
        return self.process.pid

    def meter(self):
        """Start an account of the serving process."""
        return accounting.Meter(self.worker_pid(), SERVER_CORE)

    def memory_kib(self):
        return accounting.memory_kib(self.worker_pid())

    def stop(self):
        """Ask it to end, then insist. Only the process started here is touched."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_LIMIT_S)


class Nginx(Server):
    """nginx of the distribution: a master, which only waits, and one worker."""

    name = "nginx"
    program = "nginx"

    def config(self):
        made = self.fixtures
        return NGINX_CONF.format(
            mask=format(1 << SERVER_CORE, "b"), home=self.home, port=self.port, root=made.root,
            chain=made.chain(self.tls.key), key=made.key(self.tls.key), output_buffers=OUTPUT_BUFFERS,
            tls="\n        ".join(self.tls.nginx()),
        )  # fmt: skip

    def command(self):
        path = self.home / "nginx.conf"
        path.write_text(self.config())
        return [self.program, "-c", str(path), "-p", str(self.home), "-e", str(self.home / "nginx-error.log")]

    def worker_pid(self):
        master = self.process.pid
        with open(f"/proc/{master}/task/{master}/children") as children:
            pids = children.read().split()
        if len(pids) != 1:
            raise RuntimeError(f"nginx has {len(pids)} workers, wanted one")
        return int(pids[0])

    def wait_until_listening(self):
        super().wait_until_listening()
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                self.worker_pid()
                return
            except RuntimeError:
                time.sleep(0.01)
        raise RuntimeError("nginx listens but has no worker")


class NginxFirst(Nginx):
    """nginx in Penstock's place, to see what the harness itself makes of two equal servers."""

    name = "nginx-first"


class Penstock(Server):
    """Penstock from this tree."""

    name = "penstock"
    program = Path("target/release/penstock")

    @property
    def session_memory(self):
        """The example that fills a session cache and tells its size."""
        return self.program.parent / "examples/session_memory"

    def config(self):
        made = self.fixtures
        return PENSTOCK_CONF.format(
            port=self.port, root=made.root, chain=made.chain(self.tls.key), key=made.key(self.tls.key),
            tls="".join(f"\n  {line}" for line in self.tls.penstock()),
        )  # fmt: skip

    def command(self):
        path = self.home / "penstock.yaml"
        path.write_text(self.config())
        return [str(self.program), "serve", "-c", str(path)]
