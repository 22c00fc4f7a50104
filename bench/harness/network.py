"""The network between server and client: loopback as it is, or two namespaces joined by a pair of virtual cards.

On loopback the kernel does much of the server's work in the time of others: TCP sends when acknowledgements arrive and when
pacing timers fire. Between namespaces with a core each, that work falls on the server's core, and is counted there.

The server keeps the address 127.0.0.1 in its namespace, and the client's namespace, whose own loopback is down, has a route to
it. So every server, client and configuration is the same as on loopback.
"""

import ctypes
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import lossy

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000  # of linux/sched.h
IPV4 = Path("/proc/sys/net/ipv4")
ALLOWED = IPV4 / "tcp_allowed_congestion_control"
SETTINGS = ("conf.all.route_localnet=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0")
LIMIT_S = 20


@dataclass(frozen=True)
class Account:
    """What counts as the cost of the work: the time of the server's threads, or all busy time of some cores."""

    name: str
    words: str
    cores: tuple = ()
    steers: bool = False  # whether each side's packets are received on its own core
    has_namespaces: bool = True
    bulk_times: int = 4  # a core's busy time has a resolution of 10 ms


ACCOUNTS = {
    account.name: account
    for account in (
        Account("threads", "CPU time of the server's threads, on loopback", has_namespaces=False, bulk_times=1),
        Account("machine", "all busy time of the server's core, between two namespaces", (0,), steers=True),
        Account("sum", "all busy time of both cores, between two namespaces", (0, 1)),
    )
}


class Unable(Exception):
    """This user or machine cannot make the network."""


class _Joined:
    """The namespaces in use: of the whole run, because a program has one network."""

    account = ACCOUNTS["threads"]
    server = None  # the descriptor of the server's namespace
    forwarder = None  # of a path with losses


def add_arguments(parser):
    """The arguments of a program that measures: what it counts, and over which congestion control."""
    parser.add_argument("--account", choices=ACCOUNTS, default="threads", help="what counts as cost: see bench/README.md")
    parser.add_argument("--congestion", metavar="NAME", help="congestion control of both sides, such as cubic (the system's)")


def account():
    """The account of the run."""
    return _Joined.account


def is_joined():
    """Whether server and client are in namespaces of their own."""
    return _Joined.server is not None


def enter_server():
    """For `preexec_fn` of a server: enter its namespace. Other processes are in the client's, as this program is."""
    if is_joined():
        _enter(_Joined.server)


def congestion_control():
    """The congestion control of new connections."""
    return (IPV4 / "tcp_congestion_control").read_text().strip()


def inability(account, congestion):
    """Why this program cannot measure so, or None."""
    if not account.has_namespaces:
        if congestion and congestion != congestion_control():
            return f"the system's congestion control is {congestion_control()}; {congestion} needs --account machine or sum"
        return None
    if os.geteuid() != 0:
        return f"--account {account.name} makes network namespaces, which needs root"
    for tool, package in (("ip", "iproute2"), ("sysctl", "procps")):
        if not shutil.which(tool):
            return f"--account {account.name} needs {tool}: apt-get install {package}"
    available = (IPV4 / "tcp_available_congestion_control").read_text().split()
    if congestion and congestion not in available:
        return f"this kernel has no congestion control {congestion}; it has {', '.join(available)}"
    return None


@contextmanager
def joined(account, congestion=None, path=None):
    """Makes the network of an account, with this congestion control or the system's, and removes it afterwards. With a `lossy.Path`
    its packets take that path."""
    if why := inability(account, congestion):
        raise Unable(why)
    if not account.has_namespaces:
        yield
        return
    _Joined.account = account
    names = [f"penstock-bench-{side}-{os.getpid()}" for side in ("server", "client")]
    with _allowed(congestion), open("/proc/self/ns/net") as before:
        try:
            _make(*names, account, congestion, path)
            _Joined.server = os.open(f"/run/netns/{names[0]}", os.O_RDONLY | os.O_CLOEXEC)
            with open(f"/run/netns/{names[1]}") as client:
                _enter(client.fileno())
            yield
        finally:
            _enter(before.fileno())
            if _Joined.server is not None:
                os.close(_Joined.server)
            if _Joined.forwarder is not None:
                _Joined.forwarder.stop()
            _Joined.server, _Joined.forwarder, _Joined.account = None, None, ACCOUNTS["threads"]
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=LIMIT_S)


@contextmanager
def _allowed(congestion):
    """A new namespace may use only what the first one allows."""
    before = ALLOWED.read_text().split()
    lacks = congestion and congestion not in before
    if lacks:
        ALLOWED.write_text(" ".join([*before, congestion]))
    try:
        yield
    finally:
        if lacks:
            ALLOWED.write_text(" ".join(before))


def _make(server, client, account, congestion, path):
    """Both namespaces, joined; packets of each side are received on its core if the account says so."""
    settings = [f"net.ipv4.{setting}" for setting in SETTINGS]
    settings += [f"net.ipv4.tcp_congestion_control={congestion}"] if congestion else []
    for name in (server, client):
        _run("ip", "netns", "add", name)
        _run("ip", "netns", "exec", name, "sysctl", "-qw", *settings)
    if path:
        _Joined.forwarder = lossy.Forwarder([_device_in(server, "server0"), _device_in(client, "client0")], path)
        _Joined.forwarder.start()
    else:
        _run("ip", "link", "add", "server0", "netns", server, "type", "veth", "peer", "name", "client0", "netns", client)
    _run("ip", "-n", server, "link", "set", "lo", "up")
    for name, card, address in ((server, "server0", "192.0.2.1/30"), (client, "client0", "192.0.2.2/30")):
        _run("ip", "-n", name, "addr", "add", address, "dev", card)
        _run("ip", "-n", name, "link", "set", card, "up")
    _run("ip", "-n", client, "route", "add", "127.0.0.1/32", "dev", "client0", "src", "192.0.2.2")
    if account.steers:
        for name, card, mask in ((server, "server0", 1), (client, "client0", 2)):
            steer = f"echo {mask} > /sys/class/net/{card}/queues/rx-0/rps_cpus"
            _run("ip", "netns", "exec", name, "sh", "-c", steer)


def _device_in(namespace, name):
    """A TUN device in a namespace."""
    with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{namespace}") as there:
        _enter(there.fileno())
        try:
            return lossy.device(name)
        finally:
            _enter(before.fileno())


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise Unable(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()}")


def _enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
