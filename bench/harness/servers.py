"""The configurations of the compared servers.

All get the same certificate, files, core and priority. A peer gets settings for this work on one core;
Penstock runs with its defaults.
"""

import os
import time
from pathlib import Path

from . import accounting
from .server import SERVER_CORE, START_LIMIT_S, Server, end, free_port

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
    http2_max_concurrent_streams 128;
    open_file_cache max=4096 inactive=600s;
    open_file_cache_valid 60s;
    {outside}
    server {{
        {listen}
        server_name localhost;
        {inside}
    }}
}}
"""
OUTPUT_BUFFERS = "2 512k"

NGINX_TLS = """\
ssl_certificate {chain};
        ssl_certificate_key {key};
        {tls}
        ssl_session_cache shared:sessions:64m;
        ssl_session_tickets on;
        ssl_buffer_size 16k;"""

NGINX_QUIC = """\
listen 127.0.0.1:{port} quic reuseport;
        quic_gso on;
        http3_max_concurrent_streams 128;"""

NGINX_UPSTREAM = """\
upstream origin {{
        server 127.0.0.1:{origin};
        keepalive 32;
    }}
    {keep}"""

NGINX_CACHE = (
    "proxy_cache_path {memory}/cache levels=2 keys_zone=kept:{keys}k max_size={size}k inactive=1d use_temp_path=off"
    " manager_files=1000 manager_sleep=50ms loader_files=1000;"
)

NGINX_KEYS_KIB = 64 << 10  # for more keys than any figure uses
NGINX_KEY_BYTES, NGINX_ZONE_KIB = 128, 12  # of one key, and of the zone itself

NGINX_PROXY = """\
location / {
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffer_size 64k;
            proxy_buffers 16 64k;
            proxy_busy_buffers_size 512k;
            proxy_max_temp_file_size 0;
        }"""

NGINX_GIVEN_UP = """\
open_file_cache off;  # it would keep open, and so keep, what the cache has given up
            """

NGINX_PROXY_CACHE = """\
location / {{
            tcp_nopush off;  # or the end of an answer made of slices stays corked for 40 ms
            {given_up}slice {slice}k;
            proxy_cache kept;
            proxy_cache_key $uri$is_args$args$slice_range;
            proxy_set_header Range $slice_range;
            proxy_cache_valid 200 206 1h;
            proxy_cache_lock on;
            proxy_cache_lock_timeout 30s;
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}"""

PENSTOCK_CONF = """\
workers: 1
affinity: true
listeners:
  - address: 127.0.0.1:{port}
    tls: {is_tls}{protocols}
{tls}sites:
  - hosts: ["*"]
    origin: {origin}
{cache}"""

PENSTOCK_TLS = """\
tls:
  certificates:
    - {{chain: {chain}, key: {key}, default: true}}{more}
"""

H2O_CONF = """\
num-threads: 1
max-connections: 8192
access-log: /dev/null
error-log: {home}/h2o-error.log
http1-request-timeout: 600
{user}listen:
  host: 127.0.0.1
  port: {port}
{ssl}{quic}hosts:
  "*":
    paths:
      "/":
        {handler}
"""

H2O_QUIC = """\
listen:
  type: quic
  host: 127.0.0.1
  port: {port}
{ssl}"""

H2O_SSL = """\
  ssl:
    certificate-file: {chain}
    key-file: {key}
    cipher-preference: client
    ocsp-update-interval: 0
    neverbleed: OFF
{pinned}"""

CADDY_CONF = """\
{{
    admin off
    auto_https off
    storage file_system {home}/storage
    log {{
        output discard
    }}
    servers {{
        protocols {protocols}
    }}
}}
{scheme}://localhost:{port} {{
    bind 127.0.0.1
    {tls}
    {handler}
}}
"""

HAPROXY_CONF = """\
global
    nbthread 1
    maxconn {connections}
    tune.ssl.default-dh-param 2048
    tune.ssl.cachesize 300000
    ssl-default-bind-options ssl-min-ver TLSv{version} ssl-max-ver TLSv{version}
    ssl-default-bind-{suites} {suite}
    ssl-default-bind-curves {groups}
    tune.bufsize 65536
defaults
    mode http
    timeout connect 10s
    timeout client 600s
    timeout server 600s
    timeout http-keep-alive 600s{splice}
frontend bench
    bind 127.0.0.1:{port}{tls}
    {handler}
"""

HAPROXY_ORIGIN = """\
default_backend origin
backend origin
    http-reuse always
    server origin 127.0.0.1:{origin}"""

VARNISH_VCL = """\
vcl 4.1;
backend origin {{ .host = "127.0.0.1"; .port = "{origin}"; }}
"""


def _keys_kib(scene):
    """The size of nginx's index. Its manager compares the files with `max_size` only every ten seconds, in which
    a busy cache grows to a multiple; a full index evicts an object for each new one at once."""
    return NGINX_ZONE_KIB + scene.cache_objects * NGINX_KEY_BYTES // 1024 if scene.cache_objects else NGINX_KEYS_KIB


class Nginx(Server):
    """nginx: a master, which only waits, and one worker."""

    name = program = "nginx"
    needs = ("nginx",)

    def config(self):
        scene = self.scene
        outside, inside = [], []
        if scene.is_plain:
            listen = f"listen 127.0.0.1:{self.port} reuseport backlog=4096;"
        else:
            http2 = " http2" if scene.is_http2 else ""
            listen = f"listen 127.0.0.1:{self.port} ssl{http2} reuseport backlog=4096;"
            if scene.is_http3:
                inside.append(NGINX_QUIC.format(port=self.port))
            inside.append(NGINX_TLS.format(
                chain=self.fixtures.chain(scene.tls.key), key=self.fixtures.key(scene.tls.key),
                tls="\n        ".join(scene.tls.nginx(self.build())),
            ))  # fmt: skip
        if scene.origin is None:
            inside.append(f"root {self.fixtures.root};")
        else:
            keep = ""
            if scene.cache_bytes:
                keep = NGINX_CACHE.format(memory=self.memory, size=scene.cache_bytes >> 10, keys=_keys_kib(scene))
            outside.append(NGINX_UPSTREAM.format(origin=scene.origin, keep=keep))
            given_up = NGINX_GIVEN_UP if scene.cache_objects else ""
            kept = NGINX_PROXY_CACHE.format(slice=scene.slice_bytes >> 10, given_up=given_up)
            location = kept if scene.cache_bytes else NGINX_PROXY
            inside.append(location)
        return NGINX_CONF.format(
            mask=format(1 << self.core, "b"), home=self.home, output_buffers=OUTPUT_BUFFERS, listen=listen,
            outside="\n    ".join(outside), inside="\n        ".join(inside),
        )  # fmt: skip

    def command(self):
        path = self.home / "nginx.conf"
        path.write_text(self.config())
        return [self.program, "-c", str(path), "-p", str(self.home), "-e", str(self.home / "nginx-error.log")]

    def environment(self):
        environment = super().environment()
        del environment["OPENSSL_CONF"]  # it has directives of its own
        return environment

    def pids(self):
        """The worker. The master only waits, and a cache's manager is a process of its own, which counts too."""
        found = []
        for pid in accounting.children(self.process.pid):
            title = accounting.command_line(pid)
            if "worker process" in title or "cache manager" in title:
                found.append(pid)
        if not found:
            raise RuntimeError("nginx has no worker")
        return found

    def wait_until_listening(self):
        super().wait_until_listening()
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                self.pids()
                return
            except (RuntimeError, OSError):
                time.sleep(0.01)
        raise RuntimeError("nginx listens but has no worker")


class NginxFirst(Nginx):
    """nginx in Penstock's place, which shows the error of the harness with two equal servers."""

    name = "nginx-first"


class Penstock(Server):
    """Penstock from this tree."""

    name = "penstock"
    program = Path("target/release/penstock")

    def config(self):
        scene = self.scene
        tls = "" if scene.is_plain else PENSTOCK_TLS.format(
            chain=self.fixtures.chain(scene.tls.key), key=self.fixtures.key(scene.tls.key),
            more="".join(f"\n  {line}" for line in scene.tls.penstock()),
        )  # fmt: skip
        cache = ""
        origin = f"{{directory: {self.fixtures.root}}}"
        if scene.origin is not None:
            relays = ", cache: off, connections: 4096" if scene.relays else ""
            origin = f'{{http: ["http://127.0.0.1:{scene.origin}"]{relays}}}'
            size = max(scene.cache_bytes, 64 << 20)
            cache = f"cache:\n  slice: {scene.slice_bytes >> 10}KiB\n" + (
                f"  memory: {{directory: {self.memory}/cache, size: {size >> 10}KiB}}\n"
            )
        # Where nothing asks over HTTP/3: responses of the peers have no Alt-Svc.
        protocols = "[h1, h2, h3]" if scene.is_http3 else "[h1, h2]"
        protocols = "" if scene.is_plain and not scene.is_http2 else f"\n    protocols: {protocols}"
        return PENSTOCK_CONF.format(
            port=self.port, is_tls="false" if scene.is_plain else "true", protocols=protocols,
            tls=tls, origin=origin, cache=cache,
        )  # fmt: skip

    def index_kib(self):
        """Without the slices, which are a mapped file on tmpfs."""
        return sum(accounting.memory_kib(pid, ("RssAnon",)) for pid in self.pids())

    def command(self):
        path = self.home / "penstock.yaml"
        path.write_text(self.config())
        return [str(self.program), "serve", "-c", str(path)]


class Earlier(Penstock):
    """Penstock of another revision."""

    name = "earlier"


class H2o(Server):
    """h2o, with its keys in its own process, as all others have them. Linked with OpenSSL, it takes the group from OpenSSL's own
    configuration; with another library, from the clients, which offer one only."""

    name = program = "h2o"
    needs = ("h2o",)

    def config(self):
        scene, made = self.scene, self.fixtures
        handler = f"file.dir: {made.root}"
        if scene.origin is not None:
            handler = f"proxy.reverse.url: http://127.0.0.1:{scene.origin}/\n        proxy.timeout.keepalive: 60000"
        ssl = "" if scene.is_plain else H2O_SSL.format(
            chain=made.chain(scene.tls.key), key=made.key(scene.tls.key),
            pinned="".join(f"    {line}\n" for line in scene.tls.h2o(self.build())),
        )  # fmt: skip
        quic = H2O_QUIC.format(port=self.port, ssl=ssl) if scene.is_http3 else ""
        return H2O_CONF.format(home=self.home, port=self.port, ssl=ssl, quic=quic, handler=handler, user="user: root\n" if os.geteuid() == 0 else "")

    def command(self):
        path = self.home / "h2o.conf"
        path.write_text(self.config())
        return [self.program, "--mode", "worker", "--conf", str(path)]


class Caddy(Server):
    """Caddy, on one processor as Go calls it."""

    name = program = "caddy"
    needs = ("caddy",)

    def config(self):
        scene, made = self.scene, self.fixtures
        handler = f"root * {made.root}\n    file_server"
        if scene.origin is not None:
            handler = f"reverse_proxy 127.0.0.1:{scene.origin} {{\n        flush_interval -1\n    }}"
        tls = "" if scene.is_plain else "\n    ".join([
            f"tls {made.chain(scene.tls.key)} {made.key(scene.tls.key)} {{", *(f"    {line}" for line in scene.tls.caddy()), "}",
        ])  # fmt: skip
        return CADDY_CONF.format(
            home=self.home, port=self.port, scheme=scene.scheme, tls=tls, handler=handler,
            protocols="h1 h2" if scene.is_http2 else "h1 h3" if scene.is_http3 else "h1",
        )  # fmt: skip

    def command(self):
        path = self.home / "Caddyfile"
        path.write_text(self.config())
        return [self.program, "run", "--config", str(path), "--adapter", "caddyfile"]


class Haproxy(Server):
    """HAProxy. It serves no files: it returns small ones from memory and proxies the rest."""

    name = program = "haproxy"
    needs = ("haproxy",)
    serves_large_files = False

    def config(self):
        scene, tls = self.scene, self.scene.tls
        if scene.origin is None:
            small = self.fixtures.root / "small.bin"
            handler = f"http-request return status 200 content-type application/octet-stream file {small}"
        else:
            handler = HAPROXY_ORIGIN.format(origin=scene.origin)
        return HAPROXY_CONF.format(
            version=tls.version, suites="ciphersuites" if tls.version == "1.3" else "ciphers", suite=tls.suite,
            groups=tls.openssl_groups, port=self.port, handler=handler,
            tls="" if scene.is_plain else f" ssl crt {self.home}/both.pem alpn {'h2,' if scene.is_http2 else ''}http/1.1",
            splice="\n    option splice-auto" if scene.relays else "",
            # A pipe is two more descriptors, of which 20,000 may be all that there are.
            connections=4096 if scene.relays else 8192,
        )  # fmt: skip

    def command(self):
        path = self.home / "haproxy.cfg"
        path.write_text(self.config())
        key = self.scene.tls.key
        both = self.fixtures.chain(key).read_bytes() + self.fixtures.key(key).read_bytes()
        (self.home / "both.pem").write_bytes(both)
        return [self.program, "-db", "-f", str(path)]


class Varnish(Server):
    """Varnish, which speaks no TLS; over TLS Hitch stands in front of it."""

    name = "varnish"
    program = "varnishd"
    needs = ("varnishd", "hitch")
    keeps_bodies_in_heap = True
    serves_files = False

    def __init__(self, fixtures, scene):
        super().__init__(fixtures, scene)
        self.behind = free_port()
        self.hitch = None

    def config(self):
        return VARNISH_VCL.format(origin=self.scene.origin)

    def command(self):
        path = self.home / "varnish.vcl"
        path.write_text(self.config())
        port = self.port if self.scene.is_plain else self.behind
        return [
            "varnishd", "-F", "-n", str(self.home / "work"), "-f", str(path), "-a", f"127.0.0.1:{port}",
            "-s", f"malloc,{max(self.scene.cache_bytes >> 10, 1024)}k", "-j", "none", "-t", "3600",
            "-p", "thread_pool_min=50", "-p", "thread_pool_max=3000", "-p", "thread_pools=1",
            "-p", "timeout_idle=600",
        ]  # fmt: skip

    def spawn(self):
        super().spawn()
        if self.scene.is_plain:
            return
        key = self.scene.tls.key
        both = self.home / "both.pem"
        both.write_bytes(self.fixtures.key(key).read_bytes() + self.fixtures.chain(key).read_bytes())
        user = ["--user=nobody", "--group=nogroup"] if os.geteuid() == 0 else []
        self.hitch = self.run([
            "hitch", f"--frontend=[127.0.0.1]:{self.port}", f"--backend=[127.0.0.1]:{self.behind}", "--workers=1",
            "--quiet", f"--tls-protos=TLSv{self.scene.tls.version}", "--backlog=4096", *user, str(both),
        ], self.core)  # fmt: skip

    def wait_until_listening(self):
        if self.hitch:
            self.wait_for(self.behind)
        super().wait_until_listening()

    def pids(self):
        front = accounting.family(self.hitch.pid) if self.hitch else []
        return accounting.family(self.process.pid) + front

    def stop(self):
        end(self.hitch)
        self.hitch = None
        super().stop()


PEERS = {peer.name: peer for peer in (Nginx, H2o, Caddy, Haproxy, Varnish)}
