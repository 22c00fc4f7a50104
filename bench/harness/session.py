"""One run of the benchmark from fixtures to stored results."""

import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager, ExitStack
from pathlib import Path

from . import check, fixtures, machine, report
from .clients import Clients
from .scene import Scene
from .server import Server
from .servers import PEERS, Nginx, Penstock
from .tls import DEFAULT, KEYS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TMPFS = Path("/dev/shm")


class Run:
    """What a run is to do. `peers` are classes of servers by their names; `ours` is measured against each of them."""

    def __init__(self, figures, effort, effort_name, rounds, ours=Penstock, peers=PEERS):
        self.figures, self.effort, self.effort_name, self.rounds = figures, effort, effort_name, rounds
        self.ours = ours
        self.faults = []
        self.peers = {name: peer for name, peer in peers.items() if not peer.missing()}
        self.absent = {name: peer.missing() for name, peer in peers.items() if peer.missing()}

    def servers(self, figure):
        """Ours and then the peers of a figure, in the order of a round."""
        return [self.ours, *(self.peers[name] for name in figure.peers if name in self.peers)]

    def take(self, data_parent, limit_s):
        """Take every figure, round by round. Returns what was found, and leaves nothing behind."""
        with bounded(limit_s), ExitStack() as stack:
            home = stack.enter_context(_directory(data_parent))
            memory = stack.enter_context(_directory(TMPFS if TMPFS.is_dir() else data_parent))
            wanted = {kind for figure in self.figures for kind in figure.files}
            made = fixtures.make(home, memory, self.effort.bulk_bytes, wanted)
            fixtures.fill_page_cache(made)
            described = machine.describe(REPOSITORY, home, self.ours.program)
            described["tls"], commands, configs = self._prepare(made)
            clients = stack.enter_context(Clients(made, Penstock.program))
            raw, seconds = {}, {}
            for figure in self.figures:
                began = time.monotonic()
                raw[figure.letter] = self._rounds(figure, made, clients)
                seconds[figure.letter] = round(time.monotonic() - began, 1)
            commands += [shlex.join(command) for command in clients.commands]
            commands = list(dict.fromkeys(report.anonymous(c, (home, memory), REPOSITORY) for c in commands))
            configs = {name: report.anonymous(text, (home, memory), REPOSITORY) for name, text in configs.items()}
        described["seconds"] = seconds
        described["faults"] = [report.anonymous(fault, (home, memory), REPOSITORY) for fault in self.faults]
        described["absent"] = sorted(self.absent)
        described["run"] = {
            "effort": self.effort_name, "rounds": self.rounds, "ours": self.ours.name, "peers": list(self.peers),
        }  # fmt: skip
        return report.Found(raw, described, commands, configs)

    def _prepare(self, made):
        """Check every server with each TLS setting it is used with; returns what was agreed on, commands, configurations."""
        found, configs = {}, {}
        commands = [shlex.join(fixtures.certificate_command(made, key)) for key in KEYS]
        pairs = dict.fromkeys(
            (figure.tls, make) for figure in self.figures for make in self.servers(figure)
            if figure.peers and not figure.is_plain and make.serves_files
        )  # fmt: skip
        for tls, make in pairs:
            progress(f"checking {make.name} with {tls.name}")
            with make(made, Scene(tls)) as server:
                found[f"{server.name} {tls.name}"] = check.require_same_tls(server)
                if tls == DEFAULT:
                    check.require_exact_bytes(server)
                    commands.append(shlex.join(server.command()))
                    configs[server.name] = server.config()
        progress("")
        return found, commands, configs

    def _rounds(self, figure, made, clients):
        """The rounds of one figure, alternating: ours, a peer, another, ours..."""
        servers = self.servers(figure)
        taken = {make.name: [] for make in servers}
        clients.tls, clients.scheme = figure.tls, "http" if figure.is_plain else "https"
        rounds = min(self.rounds, figure.rounds_max)
        for number in range(rounds):
            for make in list(servers):
                progress(f"({figure.letter}) {figure.title}: round {number + 1} of {rounds}, {make.name}")

                def make_server(make=make, **scene) -> Server:
                    return make(made, Scene(figure.tls, figure.is_plain, **scene))

                try:
                    sample = figure.measure(make_server, clients, self.effort)
                except (RuntimeError, OSError) as fault:
                    if make is not self.ours:
                        # A peer that cannot do it is left out of this figure, and the report says so.
                        self.faults.append(f"({figure.letter}) {make.name} was left out: {str(fault)[:200]}")
                        servers.remove(make)
                        del taken[make.name]
                        continue
                    raise RuntimeError(f"({figure.letter}) round {number + 1}, {make.name}: {fault}") from fault
                taken[make.name].append({"value": sample.value, **sample.details})
        progress("")
        return taken


def baseline():
    """nginx alone, for the harness's look at itself."""
    return {"nginx": Nginx}


def progress(words):
    if sys.stderr.isatty():
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


@contextmanager
def _directory(parent):
    """A directory for the run's files, deleted whatever happens."""
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=parent))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def bounded(limit_s):
    """End the run, servers included, when it takes longer than it may or is asked to stop."""

    def stop(number, _frame):
        raise TimeoutError(f"the run took more than {limit_s} s" if number == signal.SIGALRM else "asked to stop")

    earlier = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGTERM)}
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in earlier.items():
            signal.signal(number, handler)
