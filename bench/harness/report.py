"""Shows the figures on a terminal and stores a run: every round, the machine, the commands, a summary."""

import json
import re
import sys
from datetime import date

from .stats import verdict

COLOURS = {"ok": "\033[32m", "missed": "\033[31m", "-": "\033[2m"}
BOLD, DIM, PLAIN = "\033[1m", "\033[2m", "\033[0m"
VERDICT_COLUMN = 7
CROWDED = 0.05  # share of the server's core used by others from which the reader is warned


def rows(results):
    """The table's cells: per figure, letter, title, unit, both medians with spread, ratio, target, verdict."""
    table = []
    for figure, comparison in results:
        table.append((
            figure.letter, figure.title, figure.unit,
            _with_spread(comparison.ours, figure.digits), _with_spread(comparison.theirs, figure.digits),
            _with_spread(comparison.ratio, 2), target_words(figure.target), verdict(figure.target, comparison),
        ))  # fmt: skip
    return table


def target_words(target):
    """A target as a reader would write it: `<= 0.5x`, `>= 2x`, `<= 8`."""
    if target is None:
        return "-"
    return f"{'≤' if target.at_most else '≥'} {target.bound:g}{'×' if target.of == 'ratio' else ''}"


def headings(names):
    """The columns, for the two servers that were compared."""
    return ("", "figure", "unit", *names, "ratio", "target", "")


def terminal_table(names, results, colour):
    """A box of the figures; with `colour`, verdicts in green and red and the spreads dim."""
    table = [headings(names), *rows(results)]
    widths = [max(map(len, column)) for column in zip(*table)]

    def rule(left, middle, right):
        return left + middle.join("─" * (width + 2) for width in widths) + right

    lines = [rule("┌", "┬", "┐")]
    for number, row in enumerate(table):
        cells = []
        for i, cell in enumerate(row):
            padded = cell.rjust(widths[i]) if 3 <= i <= 6 else cell.ljust(widths[i])
            cells.append(_painted(padded, cell, i, number == 0) if colour else padded)
        lines.append("│ " + " │ ".join(cells) + " │")
        if number == 0:
            lines.append(rule("├", "┼", "┤"))
    lines.append(rule("└", "┴", "┘"))
    return "\n".join(lines)


def _painted(padded, cell, column, heading):
    if heading:
        return BOLD + padded + PLAIN
    if cell in COLOURS and column == VERDICT_COLUMN:
        return COLOURS[cell] + padded + PLAIN
    return re.sub(r"(\(.*\))", DIM + r"\1" + PLAIN, padded)


def _with_spread(spread, digits):
    if spread is None:
        return "-"

    def number(value):
        return f"{value:,.{digits}f}"

    return f"{number(spread.median)} ({number(spread.low)}..{number(spread.high)})"


def warnings(raw):
    """What makes a run less trustworthy than it looks."""
    said = []
    for letter, servers in raw.items():
        shares = [r["core_foreign_share"] for rounds in servers.values() for r in rounds if "core_foreign_share" in r]
        if shares and max(shares) > CROWDED:
            said.append(f"({letter}) others used up to {max(shares):.0%} of the server's core during a round")
    return said


def summary(results, machine, raw, rounds, effort_name, configs):
    """The run as a page of Markdown."""
    versions = machine["versions"]
    first, second = configs
    lines = [
        f"# {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, {date.today()}",
        "",
        f"Revision `{machine['revision'][:12]}`{' with uncommitted changes' if machine['uncommitted_changes'] else ''}, "
        f"{effort_name} run of {rounds} rounds. {versions['penstock']} against {versions['nginx']} "
        f"({versions['nginx_tls']}); files on {machine['file_system']}, in the page cache.",
        "",
        f"Median (lowest..highest). The ratio is {first} / {second}, taken within each round. `bench/README.md` says how.",
        "",
        "| " + " | ".join(headings(configs)) + " |",
        "|---|---|---|---:|---:|---:|---:|---|",
        *("| " + " | ".join(row) + " |" for row in rows(results)),
        "",
        *(f"- {line}" for line in warnings(raw)),
        "",
        "## Configurations",
    ]
    for name, config in configs.items():
        lines += ["", f"{name}:", "", "```", config.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def anonymous(text, home, repository):
    """Replace what belongs to this machine or this minute: directories, ports."""
    text = text.replace(str(home), "$RUN").replace(str(repository), ".").replace(sys.executable, "python3")
    text = re.sub(r"(?<![\w$.])/[^\s:]*/(?=penstock)", "", text)  # a binary from somewhere else
    text = re.sub(r"(?<=\$RUN/)(nginx|penstock)-\w+", r"\1", text)  # a server's own directory
    return re.sub(r"(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+|(?<=\.py )\d+", "$PORT", text)


def store(directory, raw, machine, commands, page):
    """Write the run. The directory must be new: a run is never overwritten."""
    directory.mkdir(parents=True)
    (directory / "raw.json").write_text(json.dumps(raw, indent=1) + "\n")
    (directory / "machine.json").write_text(json.dumps(machine, indent=1, ensure_ascii=False) + "\n")
    (directory / "commands.txt").write_text("\n".join(commands) + "\n")
    (directory / "summary.md").write_text(page)


def new_directory(parent, slug):
    """`DATE-SLUG`, with a number appended when there is one already."""
    name = f"{date.today()}-{slug}"
    candidate, number = parent / name, 1
    while candidate.exists():
        number += 1
        candidate = parent / f"{name}-{number}"
    return candidate
