"""One run of the benchmark from fixtures to stored results."""

import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from . import check, fixtures, machine, report
from .clients import Clients
from .servers import Nginx, Penstock
from .tls import DEFAULT, KEYS

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def run(figures, effort, effort_name, rounds, rival, output, data_parent, limit_s):
    """Take every figure in pairs, show the table, store the run. Returns the directory of the results.

    `rival` is the class of the server measured against nginx.
    """
    names = (rival.name, Nginx.name)
    letters = {figure.letter for figure in figures}
    with _bounded(limit_s), _data_directory(data_parent) as home:
        made = fixtures.make(home, effort.bulk_bytes, "a" in letters, "b" in letters)
        fixtures.fill_page_cache(made)
        described = machine.describe(REPOSITORY, home, Nginx.program, rival.program if rival is Penstock else None)
        described["tls"], commands, configs = _prepare(made, rival, home, list(dict.fromkeys(f.tls for f in figures)))
        with Clients(made, Penstock.program) as clients:
            raw = {figure.letter: _pairs(figure, made, rival, clients, effort, rounds) for figure in figures}
        results = [row for figure in figures for row in figure.rows(raw[figure.letter], names)]
        print(report.terminal_table(names, results, sys.stdout.isatty()))
        for line in report.warnings(raw):
            print("note: " + line)
        if output is None:
            return None
        commands += [shlex.join(command) for command in clients.commands]
        commands = list(dict.fromkeys(report.anonymous(c, home, REPOSITORY) for c in commands))
        directory = report.new_directory(output, machine.slug(described["cpu"], described["cores"]))
        page = report.summary(results, described, raw, rounds, effort_name, configs)
        report.store(directory, raw, described, commands, page)
        return directory


def _prepare(made, rival, home, agreements):
    """Check both servers with each TLS setting; returns the negotiated TLS, commands and configurations."""
    found, configs = {}, {}
    commands = [shlex.join(fixtures.certificate_command(made, key)) for key in KEYS]
    for tls in agreements:
        for make in (rival, Nginx):
            with make(made, tls) as server:
                found[f"{server.name} {tls.name}"] = check.require_same_tls(server)
                if tls == DEFAULT:
                    check.require_exact_bytes(server)
                    commands.append(shlex.join(server.command()))
                    configs[server.name] = report.anonymous(server.config(), home, REPOSITORY)
    return found, commands, configs


def _pairs(figure, made, rival, clients, effort, rounds):
    """The rounds of one figure, alternating: ours, theirs, ours, theirs..."""
    taken = {rival.name: [], Nginx.name: []}
    clients.tls = figure.tls
    for number in range(rounds):
        for make in (rival,) if figure.alone else (rival, Nginx):
            _progress(f"({figure.letter}) {figure.title}: round {number + 1} of {rounds}, {make.name}")
            try:
                sample = figure.measure(partial(make, made, figure.tls), clients, effort)
            except (RuntimeError, OSError) as fault:
                raise RuntimeError(f"({figure.letter}) round {number + 1}, {make.name}: {fault}") from fault
            taken[make.name].append({"value": sample.value, **sample.details})
    _progress("")
    return taken


def _progress(words):
    if sys.stderr.isatty():
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


@contextmanager
def _data_directory(parent):
    """A directory for the run's files, deleted whatever happens."""
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=parent))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _bounded(limit_s):
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
