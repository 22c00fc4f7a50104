"""The clients: each runs as its own process on the client's core, bounded in time, and answers with JSON."""

import json
import os
import re
import select
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from .server import CLIENT_CORE, pin
from .tls import DEFAULT

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
GRACE_S = 30
IDLE_LIMIT_S = 90  # to open some thousand connections one by one


class Clients:
    """Starts clients that offer `tls` only, and records every command."""

    def __init__(self, made, program):
        self._made = made
        self._program = program  # the `penstock` for `penstock load`
        self._running = []
        self.commands = []
        self.tls = DEFAULT
        self.scheme = "https"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self._running:
            end(client)

    def _popen(self, command, **streams):
        settings = self._made.openssl_conf(self.tls)
        self.commands.append([f"OPENSSL_CONF={settings}", *command])
        self._running = [client for client in self._running if client.poll() is None]
        environment = {**os.environ, "OPENSSL_CONF": str(settings), "PYTHONDONTWRITEBYTECODE": "1"}
        client = subprocess.Popen(
            command, env=environment, preexec_fn=pin(CLIENT_CORE), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **streams,
        )  # fmt: skip
        self._running.append(client)
        return client

    def _start(self, name, *arguments):
        return self._popen(
            [sys.executable, str(CLIENTS / name), *map(str, arguments)], stdin=subprocess.PIPE
        )

    def bulk(self, port, path="/bulk.bin", times=1):
        """One file per connection, on `times` connections one after another."""
        return _answer(self._start("bulk.py", f"{self.scheme}://localhost:{port}{path}", times), GRACE_S)

    def handshakes(self, port, seconds, connections, kind="full", then="close"):
        """New connections, a fixed number at a time: a handshake, then close or one small request."""
        options = ["--connections", connections, "--duration", f"{seconds}s"]
        options += ["--resume", "ticket"] if kind == "resumed" else []
        options += ["--no-request"] if then == "close" else []
        answer = self._load(port, seconds, options)
        full = answer["handshakes"] - answer["resumed"]
        # The first connections have no session to offer.
        allowed = connections + answer["handshakes"] // 50
        if full > allowed if kind == "resumed" else answer["resumed"]:
            raise RuntimeError(f"{full} full and {answer['resumed']} resumed handshakes where all had to be {kind}")
        return answer

    def fresh_connections(self, port, seconds, connections):
        """Connections without TLS that each make one request and say so, a fixed number at a time."""
        command = [
            self._program, "load", "requests", "--no-keepalive", "--quiet", "--json",
            "--address", f"127.0.0.1:{port}", "--connections", connections, "--duration", f"{seconds}s",
            "--header", "Connection: close", f"http://localhost:{port}/small.bin",
        ]  # fmt: skip
        answer = _json(self._popen(list(map(str, command)), stdin=subprocess.DEVNULL), seconds + GRACE_S)
        if answer["errors_total"] or not answer["requests"]:
            raise RuntimeError(f"{answer['requests']} requests done, some failed: {answer['errors']}")
        return {key: answer[key] for key in ("requests", "connections", "seconds", "latency_ms", "generator")}

    def handshake_each(self, port, connections, sessions):
        """Full handshakes of clients without tickets; returns their number."""
        limit_s = GRACE_S + sessions // 500
        options = ["--connections", connections, "--requests", sessions, "--duration", f"{limit_s}s", "--no-tickets"]
        answer = self._load(port, limit_s, [*options, "--no-request"])
        if answer["handshakes"] != sessions or answer["resumed"]:
            raise RuntimeError(f"{answer['handshakes']} of {sessions} handshakes, {answer['resumed']} of them resumed")
        return sessions

    def origin(self, make):
        """An origin for the servers, as a context manager."""
        return make(self._made)

    def storm(self, port, connections):
        """Connections that start at one moment, each with one small request."""
        answer = self._load(port, GRACE_S, ["--connections", connections, "--requests", connections])
        if answer["requests"] != connections:
            raise RuntimeError(f"{answer['requests']} of {connections} were served")
        total = answer["latency_ms"]["total"]
        return {**answer, "last_ms": answer["seconds"] * 1e3, "p50_ms": total["p50"], "p99_ms": total["p99"]}

    def _load(self, port, seconds, options):
        """`penstock load handshakes`; fails if an operation failed or other parameters were agreed on."""
        command = [
            self._program, "load", "handshakes", "--insecure", "--quiet", "--json", "--tls", self.tls.version,
            "--group", self.tls.client_groups, "--cipher", self.tls.suite, "--address", f"127.0.0.1:{port}", *options,
            f"https://localhost:{port}/small.bin",
        ]  # fmt: skip
        answer = _json(self._popen(list(map(str, command)), stdin=subprocess.DEVNULL), seconds + GRACE_S)
        if answer["errors_total"] or not answer["handshakes"]:
            raise RuntimeError(f"{answer['handshakes']} handshakes done, some failed: {answer['errors']}")
        suites = {agreed.split()[1] for agreed in answer["agreed"]}
        if suites != {self.tls.suite}:
            raise RuntimeError(f"agreed on {answer['agreed']}, wanted {self.tls.suite}")
        kept = ("handshakes", "resumed", "requests", "seconds", "agreed", "latency_ms", "generator")
        return {key: answer[key] for key in kept}

    def objects(self, port, path, options, seconds=GRACE_S):
        """`penstock load requests` for objects of which `{}` in the path is the number."""
        url = f"{self.scheme}://localhost:{port}{path}"
        command = [
            self._program, "load", "requests", "--insecure", "--quiet", "--json", "--address", f"127.0.0.1:{port}",
            *options, url,
        ]  # fmt: skip
        answer = _json(self._popen(list(map(str, command)), stdin=subprocess.DEVNULL), seconds + GRACE_S)
        if answer["errors_total"]:
            raise RuntimeError(f"{answer['requests']} requests done, some failed: {answer['errors']}")
        return {key: answer[key] for key in ("requests", "bytes", "seconds", "latency_ms")}

    def wrk(self, port, scenario, connections, seconds, under="/", is_warm_up=False):
        """wrk over keep-alive connections for a fixed time, asking for files `under` a path."""
        command = [
            "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s",
            "--timeout", "20s",
            "--script", str(CLIENTS / "wrk.lua"), f"{self.scheme}://localhost:{port}/", "--", scenario, under,
        ]  # fmt: skip
        answer = _answer(self._popen(command, stdin=subprocess.DEVNULL), seconds + GRACE_S)
        if not is_warm_up and (answer["errors"] or not answer["requests"]):
            raise RuntimeError(f"wrk saw errors, or no answer at all: {answer}")
        return answer

    def h2load(self, port, options, paths, protocol="h2"):
        """h2load, asking for the paths in turn; fails if a request failed."""
        version = ["--h1"] if protocol == "h1" else ["--npn-list=h2"]
        suites = [f"--tls13-ciphers={self.tls.suite}", f"--groups={self.tls.openssl_groups}"]
        urls = "\n".join(f"{self.scheme}://localhost:{port}{path}" for path in paths)
        command = ["h2load", *version, *suites, *options, "--input-file=-"]
        return parse_h2load(_said(self._popen(command, stdin=subprocess.PIPE), GRACE_S, urls))

    def manifest(self, port, times, priority=""):
        """Requests for a manifest while ten segments are under way."""
        return _answer(self._start("http2.py", "manifest", port, times, priority), GRACE_S)

    def keepalive(self, port, requests, path="/small.bin"):
        """Small requests on one connection, one at a time."""
        return _answer(self._start("keepalive.py", port, requests, path), GRACE_S)

    def hold_idle(self, port, count, is_http2=False):
        """Open idle connections; returns the client, which holds them until `release`."""
        client = self._start("http2.py", "idle", port, count) if is_http2 else self._start("idle.py", port, count)
        line = _first_line(client, IDLE_LIMIT_S)
        if not line:
            client.kill()
            _, said = client.communicate()
            said = said.strip()[-1000:] or f"not within {IDLE_LIMIT_S} s"
            raise RuntimeError(f"{count} idle connections did not come about: {said}")
        return client, json.loads(line)["ready"]

    def hold_bodies(self, port, path, count):
        """Bodies under way that are not read; returns the client, which holds them until it is told to close them."""
        client = self._start("held.py", f"{self.scheme}://localhost:{port}{path}", count)
        line = _first_line(client, IDLE_LIMIT_S)
        if not line:
            end(client)
            raise RuntimeError(f"{count} bodies did not come about within {IDLE_LIMIT_S} s")
        return client

    def arm_first_byte(self, port):
        """A client that waits for a line before it connects."""
        client = self._start("first_byte.py", port)
        if _first_line(client, GRACE_S).strip() != "armed":
            end(client)
            raise RuntimeError("the first-byte client did not start")
        return client


def parse_h2load(said):
    """The facts in the words of h2load. Requests that the end of the duration cut off are no failures."""
    patterns = {
        "seconds": r"finished in ([\d.]+)(us|ms|s|)",
        "requests": r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout",
        "bytes": r"\((\d+)\) data",
    }
    found = {fact: re.search(pattern, said) for fact, pattern in patterns.items()}
    if missing := [fact for fact, match in found.items() if match is None]:
        raise RuntimeError(f"h2load told no {missing}: {said[-300:]}")
    done, *faults = map(int, found["requests"].groups())
    if any(faults) or not done:
        raise RuntimeError(f"h2load: {found['requests'].group()}")
    scale = {"us": 1e-6, "ms": 1e-3}.get(found["seconds"].group(2), 1)
    return {"requests": done, "bytes": int(found["bytes"].group(1)), "seconds": float(found["seconds"].group(1)) * scale}


def tell(client, line):
    """Send one line to a waiting client and return its answer."""
    return _answer(client, GRACE_S, line + "\n")


def end(client):
    """End a client."""
    if client.poll() is None:
        client.kill()
    client.wait()
    for stream in filter(None, (client.stdin, client.stdout, client.stderr)):
        with suppress(BrokenPipeError):  # what was not yet written
            stream.close()


def _first_line(client, limit_s):
    """The first line of a running client; empty if none came in time."""
    ready, _, _ = select.select([client.stdout], [], [], limit_s)
    return client.stdout.readline() if ready else ""


def _answer(client, limit_s, line=None):
    """The JSON object in the last line the client printed."""
    return _read(_said(client, limit_s, line).rpartition("\n")[2])


def _json(client, limit_s):
    """The JSON object that is the client's whole output."""
    return _read(_said(client, limit_s))


def _read(said):
    try:
        return json.loads(said)
    except ValueError:
        raise RuntimeError(f"a client printed no JSON: {said[-300:] or 'nothing'}") from None


def _said(client, limit_s, line=None):
    try:
        said, complained = client.communicate(line, timeout=limit_s)
    except subprocess.TimeoutExpired:
        end(client)
        raise RuntimeError(f"a client took more than {limit_s:g} s: {shlex.join(client.args)}") from None
    if client.returncode != 0:
        raise RuntimeError(f"a client failed: {complained.strip()[-1000:]}")
    return said.strip()
