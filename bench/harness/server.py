"""A server under measurement: start on its core, accounting, end."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from . import accounting, builds, network
from .scene import Scene

SERVER_CORE = 0
CLIENT_CORE = 1
START_LIMIT_S = 10
STOP_LIMIT_S = 5
PR_SET_PDEATHSIG = 1  # of linux/prctl.h
LIBC = ctypes.CDLL(None)
PRIORITY = -10  # above other programs; the same for servers and clients


def free_port():
    """A port on which nothing is listening. The server's namespace, if it has one, has no other listeners."""
    with socket.socket() as probe:
        probe.bind(("" if network.is_joined() else "127.0.0.1", 0))
        return probe.getsockname()[1]


def pin(core):
    """For `preexec_fn`: put the child on one core, into the namespace of the core's side, with raised priority if permitted,
    and end it together with its parent."""

    def apply():
        if core == SERVER_CORE:
            network.enter_server()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # else a killed run would leave servers behind
        os.sched_setaffinity(0, {core})
        os.setsid()  # the kernel may divide time by session first: then only a separate session can have priority
        try:
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(PRIORITY))
        except OSError:
            pass  # not permitted, or a kernel without groups

    return apply


class Server:
    """A program that listens. Use as a context manager: it is ended by its pid in any case."""

    name = ""
    program = ""
    needs = ()  # programs that have to be installed
    is_by_path = False
    core = SERVER_CORE
    keeps_bodies_in_heap = False
    serves_files = True
    serves_large_files = True

    def __init__(self, fixtures, scene=Scene()):
        self.fixtures = fixtures
        self.scene = scene
        self.port = free_port()
        self.process = None
        self.spawned_ns = 0
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=fixtures.home))
        self.home.chmod(0o755)
        self.memory = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=fixtures.memory))
        self.memory.chmod(0o777)  # some drop root before they write there

    @classmethod
    def missing(cls):
        """The programs that this machine lacks."""
        return [program for program in cls.needs if shutil.which(program) is None]

    @classmethod
    def build(cls):
        """Its version and TLS library."""
        return builds.read(builds.kind_of(cls.name), str(cls.program), cls.is_by_path)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.memory, ignore_errors=True)

    def command(self):
        raise NotImplementedError

    def config(self):
        """Its configuration as text."""
        raise NotImplementedError

    def environment(self):
        """Programs linked with OpenSSL take version, suite and group from the same settings as the clients."""
        settings = self.fixtures.openssl_conf(self.scene.tls)
        return {**os.environ, "OPENSSL_CONF": str(settings), "GOMAXPROCS": "1", "HOME": str(self.home)}

    def start(self):
        """Spawn it and wait until it listens. A start after `stop` restores its cache."""
        self.spawn()
        try:
            self.wait_until_listening()
        except BaseException:
            self.stop()
            raise

    def spawn(self):
        """Start the program and record the time just before."""
        command = self.command()
        self.spawned_ns = time.monotonic_ns()
        self.process = self.run(command, self.core)

    def run(self, command, core):
        """Start one process of this server."""
        with open(self.home / "stderr", "ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=pin(core), env=self.environment()
            )

    def wait_until_listening(self):
        """Return when the server answers."""
        self.wait_for(self.port)

    def wait_for(self, port):
        """Return when the port accepts; fail with the program's output if it ends or takes too long."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        said = (self.home / "stderr").read_text(errors="replace").strip()[-2000:]
        raise RuntimeError(f"{self.name} did not listen on port {port}: {said or 'it said nothing'}")

    def pids(self):
        """The serving processes."""
        return accounting.family(self.process.pid)

    def meter(self):
        """Start an account of the serving processes, or of all that the cores do."""
        return accounting.Meter(self.pids(), SERVER_CORE, network.account().cores)

    def memory_kib(self):
        return sum(accounting.memory_kib(pid) for pid in self.pids())

    def index_kib(self):
        """Memory for the cached objects' metadata, and for their bodies if these are in the heap."""
        return self.memory_kib()

    def kept_mib(self):
        """The space that its cache takes: files on tmpfs, or the heap if bodies are stored there."""
        files = sum(path.stat().st_blocks * 512 for path in self.memory.rglob("*") if path.is_file())
        return files / (1 << 20) + (self.memory_kib() / 1024 if self.keeps_bodies_in_heap else 0)

    def stop(self):
        """End the server by SIGTERM, then by SIGKILL. Only the process started here is signalled."""
        end(self.process)


def end(process):
    """End a process that was started here, and its children if it does not end them."""
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        for pid in accounting.family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(STOP_LIMIT_S)
