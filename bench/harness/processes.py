"""Starting and ending processes for scripts other than `bench/run`."""

import os
import signal
import ssl
import subprocess
import time
import urllib.request

LIMIT_S = 30


def start(command, **options):
    return subprocess.Popen([str(word) for word in command], start_new_session=True, **options)


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=LIMIT_S)


def fetched(port, path, scheme="http"):
    """The content of a response. Every certificate is trusted."""
    trusting = ssl._create_unverified_context()
    with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}{path}", timeout=LIMIT_S, context=trusting) as answer:
        return answer.read()


def until_up(port, path, scheme="http"):
    for _ in range(10 * LIMIT_S):
        try:
            return fetched(port, path, scheme)
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing answers on port {port}")


def worker_of(server, name):
    """The process that serves: nginx's is a child of the one that was started."""
    if name == "penstock":
        return server.pid
    for _ in range(10 * LIMIT_S):
        found = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False).stdout
        if found:
            return int(found.split()[0])
        time.sleep(0.1)
    raise RuntimeError(f"{name} has started no worker")


def as_root():
    """The nginx configuration for writing to directories of root."""
    return "user root; " if os.geteuid() == 0 else ""


def spread(values, scale):
    values = sorted(values)
    if not values:
        return {"p50": None, "p99": None, "max": None}
    at = lambda share: round(values[min(len(values) - 1, int(share * len(values)))] * scale, 2)
    return {"p50": at(0.5), "p99": at(0.99), "max": at(1.0)}
