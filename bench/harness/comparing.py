"""The comparison of two revisions as text: which figures became slower or faster beyond the noise."""

from .report import box, with_spread
from .stats import NOTICEABLE, trend

COLOURS = {"slower": "\033[31m", "faster": "\033[32m", "same": "\033[2m", "no pair": "\033[33m"}
FEW_ROUNDS = 3  # with fewer, all of them can agree by chance


def said(figure, comparison):
    """`slower`, `faster`, `same`, or `no pair` if the other revision failed."""
    return "no pair" if comparison.ratio is None else trend(comparison, figure.less_is_better)


def table(results, earlier, colour):
    """A table for the terminal: each figure of both revisions and the difference, with the spread of the rounds."""
    lines = [("", "figure", "unit", earlier, "this tree", "difference", "")]
    for figure, _, comparison in results:
        lines.append((
            figure.letter, figure.title, figure.unit, with_spread(comparison.theirs, figure.digits),
            with_spread(comparison.ours, figure.digits), _difference(comparison), said(figure, comparison),
        ))  # fmt: skip
    return box(lines, (3, 4, 5), COLOURS if colour else None)


def _difference(comparison):
    """`+4.1 % (+3.2..+5.0)`: of the median of the pairs, the lowest and the highest pair."""
    if comparison.ratio is None:
        return "-"
    median, low, high = (f"{(one - 1) * 100:+.1f}" for one in (comparison.ratio.median, comparison.ratio.low, comparison.ratio.high))
    return f"{median} % ({low}..{high})"


def slower(results):
    """The figures that became slower."""
    return [(figure, comparison) for figure, _, comparison in results if said(figure, comparison) == "slower"]


def conclusion(results, rounds):
    """The conclusion in sentences."""
    worse = slower(results)
    for figure, comparison in worse:
        label = f"({figure.letter}) " if figure.letter else ""
        yield f"slower: {label}{figure.title}, {_difference(comparison)} {figure.unit}".rstrip()
    if results and not worse:
        yield f"Nothing is slower by more than {NOTICEABLE:.0%} in every round."
    if results and rounds < FEW_ROUNDS:
        yield f"note: with fewer than {FEW_ROUNDS} rounds this is chance; take 5"
