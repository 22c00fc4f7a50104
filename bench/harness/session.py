"""One run of the benchmark from fixtures to results. A failed round is repeated; after a second failure the peer is left
out of the figure, or the figure has failed if Penstock was the cause. The rest of the run continues."""

import shlex
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

from . import check, fixtures, machine, network
from .builds import of_kinds
from .clients import Clients
from .record import Found, anonymous, differences
from .scene import Scene
from .server import Server
from .servers import PEERS, Nginx, Penstock
from .stopping import Stopped, bounded
from .tls import DEFAULT, KEYS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TMPFS = Path("/dev/shm")
WORDS = 300  # of an error's text, which may be a whole log
# The state in a stored run while it is in progress, and after it was killed.
GOING_ON = "it ended without a word, or is still going on"


class Failed(Exception):
    """A step failed twice."""


class Run:
    """The plan of a run. `peers` are classes of servers by their names; `ours` is measured against each of them."""

    def __init__(self, figures, effort, effort_name, rounds, ours=Penstock, peers=PEERS):
        self.figures, self.effort, self.effort_name, self.rounds = figures, effort, effort_name, rounds
        self.ours = ours
        self.peers = {name: peer for name, peer in peers.items() if not peer.missing()}
        self.absent = {name: peer.missing() for name, peer in peers.items() if peer.missing()}
        self.stopped = None
        self._unfit = {}  # (server, TLS setting): why it takes part in no figure with this setting
        self._anonymous = str

    def servers(self, figure):
        """Ours and then the peers of a figure that can take part, in the order of a round."""
        peers = [self.peers[name] for name in of_kinds(self.peers, figure.peers)]
        return [self.ours, *(peer for peer in peers if not self._why_unfit(figure, peer))]

    def take(self, data_parent, limit_s, earlier=None, keep=lambda _found: None):
        """Take every figure, or those which `earlier`, a part of the same run, lacks. Returns the results, complete or
        partial (`stopped` has the reason), and removes its files. `keep` gets the result after each figure."""
        found = None
        try:
            with bounded(limit_s), ExitStack() as stack:
                home = stack.enter_context(_directory(data_parent))
                memory = stack.enter_context(_directory(TMPFS if TMPFS.is_dir() else data_parent))
                programs = [Path(peer.program) for peer in self.peers.values() if peer.is_by_path]
                self._anonymous = lambda text: anonymous(text, (home, memory), REPOSITORY, programs)
                found = self._begun(machine.describe(REPOSITORY, home, self.ours.program, self.peers), earlier)
                wanted = [figure for figure in self.figures if figure.letter in found.lacking()]
                made = fixtures.make(home, memory, self.effort.bulk_bytes, {kind for one in wanted for kind in one.files})
                fixtures.fill_page_cache(made)
                self._prepare(wanted, made, found)
                clients = stack.enter_context(Clients(made, Penstock.program))
                self.take_figures(wanted, made, clients, found, keep)
        except Stopped as stopped:
            self.stopped = stopped
            if found is None:
                raise
            found.machine["run"]["ended"] = str(stopped)
        return found

    def _begun(self, described, earlier):
        """The result before the first measurement."""
        run = {
            "effort": self.effort_name, "rounds": self.rounds, "ours": self.ours.name, "peers": list(self.peers),
            "figures": [figure.letter for figure in self.figures], "ended": GOING_ON, "parts": 1,
            "account": network.account().name, "congestion": network.congestion_control(),
        }  # fmt: skip
        if earlier is None:
            described |= {"seconds": {}, "faults": [], "failed": {}, "partial": {}, "absent": sorted(self.absent), "tls": {}}
            described["run"] = run
            described["day"] = str(date.today())
            return Found({}, described)
        if unlike := differences(earlier.machine, described):
            raise RuntimeError("this is not the machine or the program of the run to go on with; " + "; ".join(unlike))
        run["figures"] = earlier.machine["run"]["figures"]
        run["parts"] = earlier.machine["run"].get("parts", 1) + 1
        earlier.machine["run"] = run
        return earlier

    def _why_unfit(self, figure, make):
        return self._unfit.get((make.name, figure.tls)) if _is_checked(figure, make) else None

    def _prepare(self, figures, made, found):
        """Check every server with each TLS setting it is used with."""
        commands = [shlex.join(fixtures.certificate_command(made, key)) for key in KEYS]
        pairs = dict.fromkeys(
            (figure.tls, make) for figure in figures for make in self.servers(figure) if _is_checked(figure, make)
        )
        for tls, make in pairs:
            progress(f"checking {make.name} with {tls.name}")

            def agreed(tls=tls, make=make):
                with make(made, Scene(tls)) as server:
                    found.machine["tls"][f"{server.name} {tls.name}"] = check.require_same_tls(server)
                    if tls == DEFAULT:
                        check.require_exact_bytes(server)
                        commands.append(shlex.join(server.command()))
                        found.configs[server.name] = self._anonymous(server.config())

            try:
                self._twice(f"the check of {make.name} with {tls.name}", agreed, found)
            except Failed as fault:
                self._unfit[make.name, tls] = str(fault)
                if make is not self.ours:
                    found.machine["faults"].append(f"{make.name} was left out of all figures with {tls.name}: {fault}")
        progress("")
        self._remember(commands, found)

    def take_figures(self, figures, made, clients, found, keep):
        """Take the figures one after another; after an early end, `found` has the complete ones."""
        for number, figure in enumerate(figures):
            began = time.monotonic()
            place = f"{number + 1} of {len(figures)} figures"
            try:
                self._figure(figure, made, clients, found, place)
            finally:
                progress("")
                found.machine["seconds"][figure.letter] = round(time.monotonic() - began, 1)
                self._remember([shlex.join(command) for command in clients.commands], found)
            if figure is figures[-1]:
                found.machine["run"]["ended"] = ""
            keep(found)

    def _remember(self, commands, found):
        found.commands = list(dict.fromkeys([*found.commands, *map(self._anonymous, commands)]))

    def _figure(self, figure, made, clients, found, place):
        """One figure: its rounds go to `raw`, unless Penstock failed, or no round was complete."""
        letter = figure.letter
        for earlier in (found.raw, found.failed(), found.partial()):
            earlier.pop(letter, None)
        taken = {}
        try:
            if why := self._why_unfit(figure, self.ours):
                raise Failed(why)
            self._rounds(figure, taken, made, clients, found, place)
            found.raw[letter] = taken
        except Failed as fault:
            found.machine["failed"][letter] = {"why": str(fault), "taken": taken}
        except Stopped:
            complete = min(map(len, taken.values()), default=0)
            if complete:
                found.raw[letter] = {name: rounds[:complete] for name, rounds in taken.items()}
                found.machine["partial"][letter] = complete
            raise

    def _rounds(self, figure, taken, made, clients, found, place):
        """The rounds of one figure, alternating: ours, a peer, another, ours..."""
        servers = self.servers(figure)
        taken.update({make.name: [] for make in servers})
        clients.tls, clients.scheme = figure.tls, "http" if figure.is_plain else "https"
        rounds = min(self.rounds, figure.rounds_max)
        for number in range(rounds):
            for make in list(servers):
                progress(f"({figure.letter}) {figure.title}: round {number + 1} of {rounds}, {make.name}; {place}")

                def make_server(make=make, **scene) -> Server:
                    return make(made, Scene(figure.tls, figure.is_plain, **scene))

                def measured(make_server=make_server):
                    return figure.measure(make_server, clients, self.effort)

                what = f"({figure.letter}) round {number + 1} of {make.name}"
                try:
                    sample = self._twice(what, measured, found)
                except Failed as fault:
                    if make is self.ours:
                        raise Failed(f"round {number + 1} of {rounds}: {fault}") from fault
                    # A peer that fails is left out of this figure, and the report says so.
                    found.machine["faults"].append(f"({figure.letter}) {make.name} was left out: {fault}")
                    servers.remove(make)
                    del taken[make.name]
                    continue
                taken[make.name].append({"value": sample.value, **sample.details})

    def _twice(self, what, attempt, found):
        """The outcome of an attempt, which is repeated once: one hanging client must not spoil a run. All exceptions count, also
        those of this program, because half an hour of measurements must not be lost."""
        try:
            return attempt()
        except Exception as fault:
            first = self._words(fault)
        progress(f"{what} failed, once more: {first}")
        try:
            outcome = attempt()
        except Exception as fault:
            raise Failed(self._words(fault)) from fault
        found.machine["faults"].append(f"{what} was taken again: {first}")
        return outcome

    def _words(self, fault):
        """An error in one line that may be published."""
        said = str(fault) if type(fault) is RuntimeError else f"{type(fault).__name__}: {fault}"
        return " ".join(self._anonymous(said).split())[:WORDS]


def _is_checked(figure, make):
    """Whether the server's bytes are checked over TLS before it takes part in the figure."""
    return bool(figure.peers) and not figure.is_plain and make.serves_files


def baseline():
    """nginx alone, for the harness's own error."""
    return {"nginx": Nginx}


def progress(words):
    """Prints one line on a terminal that the next one replaces."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{words[:width]}", end="", file=sys.stderr, flush=True)


@contextmanager
def _directory(parent):
    """A directory for the run's files, deleted in any case."""
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=parent))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
