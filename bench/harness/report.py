"""Shows the figures on a terminal and stores a run: every round, the machine, the commands, a summary, a page."""

import json
import re
import sys
from dataclasses import dataclass, field
from datetime import date

from . import page
from .stats import verdict
from .verdicts import losses, results_of

COLOURS = {"ok": "\033[32m", "missed": "\033[31m", "-": "\033[2m"}
BOLD, DIM, PLAIN = "\033[1m", "\033[2m", "\033[0m"
VERDICT_COLUMN = 8
CROWDED = 0.05  # share of the server's core used by others from which the reader is warned


@dataclass
class Found:
    """What a run has found: rounds by figure and server, the machine, what was run, how servers were configured."""

    raw: dict
    machine: dict
    commands: list = field(default_factory=list)
    configs: dict = field(default_factory=dict)
    day: str = field(default_factory=lambda: str(date.today()))


def rows(results):
    """The table's cells: letter, title, unit, our median with spread, the peer, its, ratio, target, verdict."""
    table, above = [], None
    for figure, peer, comparison in results:
        same = above == (figure.title, figure.unit)  # another peer of the same figure: what is ours stands above
        target = figure.target if peer in (None, "nginx") else None
        table.append((
            "" if same else figure.letter, "" if same else figure.title, "" if same else figure.unit,
            "" if same else with_spread(comparison.ours, figure.digits), peer or "-",
            with_spread(comparison.theirs, figure.digits), with_spread(comparison.ratio, 2),
            target_words(target), verdict(target, comparison),
        ))  # fmt: skip
        above = (figure.title, figure.unit)
    return table


def target_words(target):
    """A target as a reader would write it: `<= 0.5x`, `>= 2x`, `<= 8`."""
    if target is None:
        return "-"
    return f"{'≤' if target.at_most else '≥'} {target.bound:g}{'×' if target.of == 'ratio' else ''}"


def headings(ours):
    return ("", "figure", "unit", ours, "peer", "its figure", "ratio", "target", "")


def terminal_table(ours, results, colour):
    """A box of the figures; with `colour`, verdicts in green and red and the spreads dim."""
    table = [headings(ours), *rows(results)]
    widths = [max(map(len, column)) for column in zip(*table)]

    def rule(left, middle, right):
        return left + middle.join("─" * (width + 2) for width in widths) + right

    lines = [rule("┌", "┬", "┐")]
    for number, row in enumerate(table):
        cells = []
        for i, cell in enumerate(row):
            padded = cell.rjust(widths[i]) if i in (3, 5, 6, 7) else cell.ljust(widths[i])
            cells.append(_painted(padded, cell, i, number == 0) if colour else padded)
        lines.append("│ " + " │ ".join(cells) + " │")
        if number == 0:
            lines.append(rule("├", "┼", "┤"))
    lines.append(rule("└", "┴", "┘"))
    return "\n".join(lines)


def _painted(padded, cell, column, is_heading):
    if is_heading:
        return BOLD + padded + PLAIN
    if column == VERDICT_COLUMN and cell in COLOURS:
        return COLOURS[cell] + padded + PLAIN
    if " (" in padded and column in (3, 5, 6):
        number, rest = padded.split(" (", 1)
        return f"{number}{DIM} ({rest}{PLAIN}"
    return padded


def with_spread(spread, digits):
    """`0.484 (0.469..0.485)`, or `-` for nothing."""
    if spread is None:
        return "-"

    def number(value):
        return f"{value:,.{digits}f}"

    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}..{number(spread.high)})"


def warnings(raw, faults=()):
    """What makes a run less trustworthy than it looks."""
    said = list(faults)
    for letter, servers in raw.items():
        shares = [r["core_foreign_share"] for rounds in servers.values() for r in rounds if "core_foreign_share" in r]
        if shares and max(shares) > CROWDED:
            said.append(f"({letter}) others used up to {max(shares):.0%} of the server's core during a round")
    return said


def heading(found):
    """The run in one line."""
    machine = found.machine
    return f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, {found.day}"


def summary(figures, found):
    """The run as a page of Markdown."""
    machine, run = found.machine, found.machine["run"]
    versions = ", ".join(f"{name} {said}" for name, said in machine["versions"].items() if said not in ("absent", None))
    results = results_of(figures, found)
    lines = [
        f"# {heading(found)}",
        "",
        *_lost(losses(results)),
        f"Revision `{machine['revision'][:12]}`{' with uncommitted changes' if machine['uncommitted_changes'] else ''}, "
        f"{run['effort']} run of {run['rounds']} rounds; files on {machine['file_system']}, in the page cache. {versions}.",
        "",
        f"Median (lowest..highest). The ratio is {run['ours']} / peer, taken within each round. `bench/README.md` says how.",
        "",
        "| " + " | ".join(headings(run["ours"])) + " |",
        "|---|---|---|---:|---|---:|---:|---:|---|",
        *("| " + " | ".join(row) + " |" for row in rows(results)),
        "",
        *(f"- {line}" for line in warnings(found.raw, found.machine.get("faults", ()))),
        *(f"- {name} was left out: it is not installed." for name in machine["absent"]),
        "",
        "## Configurations",
    ]
    for name, config in found.configs.items():
        lines += ["", f"{name}:", "", "```", config.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _lost(lost):
    if not lost:
        return ["**No peer was better in any figure of this run.**", ""]
    return ["**Where a peer was better:**", "", *(f"- {line}" for line in lost), ""]


def anonymous(text, homes, repository):
    """Replace what belongs to this machine or this minute: directories, ports."""
    for home in homes:
        text = text.replace(str(home), "$RUN")
    text = text.replace(str(repository), ".").replace(sys.executable, "python3")
    text = re.sub(r"(?<![\w$.])/[^\s:]*/(?=penstock\b)", "", text)  # a binary from somewhere else
    text = re.sub(r"(?<=\$RUN/)(nginx|penstock|earlier|h2o|caddy|haproxy|varnish)-\w+", r"\1", text)  # its own directory
    return re.sub(r"(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+|(?<=\.py )\d+|(?<=port: )\d+", "$PORT", text)


def store(directory, figures, found):
    """Write the run. The directory must be new: a run is never overwritten."""
    directory.mkdir(parents=True)
    (directory / "raw.json").write_text(json.dumps(found.raw, indent=1) + "\n")
    (directory / "machine.json").write_text(json.dumps(found.machine, indent=1, ensure_ascii=False) + "\n")
    (directory / "commands.txt").write_text("\n".join(found.commands) + "\n")
    (directory / "configurations.json").write_text(json.dumps(found.configs, indent=1) + "\n")
    render(directory, figures, found)


def render(directory, figures, found):
    """Write, or write again, what is made from the figures."""
    (directory / "summary.md").write_text(summary(figures, found))
    (directory / "report.html").write_text(page.html(figures, found, heading(found), warnings(found.raw, found.machine.get("faults", ()))))
    (directory / "overview.svg").write_text(page.overview(figures, found, heading(found)))


def load(directory):
    """A stored run."""
    read = {name: json.loads((directory / f"{name}.json").read_text()) for name in ("raw", "machine", "configurations")}
    commands = (directory / "commands.txt").read_text().splitlines()
    day = re.match(r"\d{4}-\d\d-\d\d", directory.name)
    return Found(read["raw"], read["machine"], commands, read["configurations"], day.group() if day else "")


def new_directory(parent, slug):
    """`DATE-SLUG`, with a number appended when there is one already."""
    name = f"{date.today()}-{slug}"
    candidate, number = parent / name, 1
    while candidate.exists():
        number += 1
        candidate = parent / f"{name}-{number}"
    return candidate
