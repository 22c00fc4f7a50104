"""Shows the figures on a terminal, and draws a run: a summary in Markdown, a page, an overview drawing."""

from . import page
from .network import ACCOUNTS
from .record import put
from .stats import verdict
from .verdicts import counted, gaps, losses, results_of

COLOURS = {"ok": "\033[32m", "missed": "\033[31m", "-": "\033[2m"}
BOLD, DIM, PLAIN = "\033[1m", "\033[2m", "\033[0m"
NUMBER_COLUMNS = (3, 5, 6, 7)
CROWDED = 0.05  # share of the server's core used by others from which the reader is warned


def rows(results):
    """The table's cells: letter, title, unit, our median with spread, the peer, its, ratio, target, verdict."""
    table, above = [], None
    for figure, peer, comparison in results:
        same = above == (figure.title, figure.unit)  # another peer of the same figure: Penstock's cells are in the row above
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
    """A target in words: `<= 0.5x`, `>= 2x`, `<= 8`."""
    if target is None:
        return "-"
    return f"{'≤' if target.at_most else '≥'} {target.bound:g}{'×' if target.of == 'ratio' else ''}"


def headings(ours):
    return ("", "figure", "unit", ours, "peer", "its figure", "ratio", "target", "")


def terminal_table(ours, results, colour):
    """A box of the figures; with `colour`, verdicts in green and red and the spreads dim."""
    return box([headings(ours), *rows(results)], NUMBER_COLUMNS, COLOURS if colour else None)


def box(table, numbers, colours=None):
    """A table with a frame. The columns in `numbers` are aligned to the right; with `colours`, spreads are dim and the
    words of the last column have theirs."""
    widths = [max(map(len, column)) for column in zip(*table)]

    def rule(left, middle, right):
        return left + middle.join("─" * (width + 2) for width in widths) + right

    lines = [rule("┌", "┬", "┐")]
    for number, row in enumerate(table):
        cells = [cell.rjust(width) if i in numbers else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        if colours and number == 0:
            cells = [BOLD + cell + PLAIN for cell in cells]
        elif colours:
            cells = [_dimmed(cell) if i in numbers else cell for i, cell in enumerate(cells)]
            cells[-1] = colours.get(row[-1], "") + cells[-1] + PLAIN
        lines.append("│ " + " │ ".join(cells) + " │")
        if number == 0:
            lines.append(rule("├", "┼", "┤"))
    lines.append(rule("└", "┴", "┘"))
    return "\n".join(lines)


def _dimmed(cell):
    """A number with its spread dim."""
    number, bracket, rest = cell.partition(" (")
    return f"{number}{DIM}{bracket}{rest}{PLAIN}" if bracket else cell


def with_spread(spread, digits):
    """`0.484 (0.469..0.485)`, or `-` for nothing."""
    if spread is None:
        return "-"

    def number(value):
        return f"{value:,.{digits}f}"

    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}..{number(spread.high)})"


def warnings(found):
    """Disturbances that make a run less trustworthy."""
    said = list(found.machine.get("faults", ()))
    parts = found.machine["run"].get("parts", 1)
    said += [f"taken in {parts} parts, one after another"] if parts > 1 else []
    crowded = []
    for letter, servers in found.raw.items():
        shares = [r["core_foreign_share"] for rounds in servers.values() for r in rounds if "core_foreign_share" in r]
        if shares and max(shares) > CROWDED:
            crowded.append(f"({letter}) {max(shares):.0%}")
    if crowded:
        said.append(f"others used the server's core during a round, at most: {', '.join(crowded)}")
    return said


def heading(found):
    """The run in one line."""
    machine, run = found.machine, found.machine["run"]
    words = f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}"
    if "account" in run:
        words += f", {run['congestion']}, account {run['account']}"
    return words + (f", {found.day}" if found.day else "")


def counted_words(found):
    """What the figures count, for runs that say so."""
    run = found.machine["run"]
    if "account" not in run:
        return []
    return [f"Counted: {ACCOUNTS[run['account']].words}; congestion control {run['congestion']}."]


def summary(figures, found):
    """The run as a page of Markdown."""
    machine, run = found.machine, found.machine["run"]
    versions = ", ".join(f"{name} {said}" for name, said in machine["versions"].items() if said not in ("absent", None))
    results = results_of(figures, found)
    lines = [
        f"# {heading(found)}",
        "",
        *_gaps(gaps(figures, found)),
        *_lost(losses(results)),
        f"Revision `{machine['revision'][:12]}`{' with uncommitted changes' if machine['uncommitted_changes'] else ''}, "
        f"{run['effort']} run of {counted(run['rounds'], 'round')}; files on {machine['file_system']}, in the page cache. {versions}.",
        "",
        f"Median (lowest..highest). The ratio is {run['ours']} / peer, taken within each round. `bench/README.md` says how.",
        *counted_words(found),
        "",
        "| " + " | ".join(headings(run["ours"])) + " |",
        "|---|---|---|---:|---|---:|---:|---:|---|",
        *("| " + " | ".join(row) + " |" for row in rows(results)),
        "",
        *(f"- {line}" for line in warnings(found)),
        *(f"- {name} was left out: it is not installed." for name in machine["absent"]),
        "",
        "## Configurations",
    ]
    for name, config in found.configs.items():
        lines += ["", f"{name}:", "", "```", config.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _gaps(told):
    return ["**What this run has not measured:**", "", *(f"- {line}" for line in told), ""] if told else []


def _lost(lost):
    if not lost:
        return ["**No peer was better in any figure of this run.**", ""]
    return ["**Where a peer was better:**", "", *(f"- {line}" for line in lost), ""]


def render(directory, figures, found):
    """Write the files that are made from the figures."""
    put(directory / "summary.md", summary(figures, found))
    put(directory / "report.html", page.html(figures, found, heading(found), warnings(found)))
    if drawing := page.overview(figures, found, heading(found)):
        put(directory / "overview.svg", drawing)
