"""The arithmetic of a pair: medians, spreads, ratios round by round, and the verdict against a target.

This module depends neither on servers nor on clocks (`tests/test_stats.py`).
"""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Median and extremes of one server's rounds, in the figure's own unit."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """One figure of both servers. `ratio` is ours divided by theirs, taken within each round; None without a peer."""

    ours: Spread
    theirs: Spread | None
    ratio: Spread | None


def spread(values):
    """Median and extremes. At least one value; a figure without rounds is an error of the harness."""
    if not values:
        raise ValueError("no rounds to summarise")
    return Spread(median(values), min(values), max(values))


def compare(ours, theirs):
    """Compare two equally long lists of rounds, round i of one with round i of the other; `theirs` may be empty."""
    if not theirs:
        return Comparison(spread(ours), None, None)
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of ours against {len(theirs)} of theirs: not pairs")
    ratios = [a / b for a, b in zip(ours, theirs)]
    return Comparison(spread(ours), spread(theirs), spread(ratios))


@dataclass(frozen=True)
class Target:
    """What a figure should reach.

    `of` says what is held against `bound`: the median "ratio" of the pairs, or our own "value".
    `at_most` is the direction: True when less is better.
    """

    of: str
    bound: float
    at_most: bool

    def met(self, comparison):
        """Whether the median reaches the bound; the bound itself counts as reached."""
        if self.of not in ("ratio", "value"):
            raise ValueError(f"a target is of a ratio or a value, not of {self.of!r}")
        reached = comparison.ratio.median if self.of == "ratio" else comparison.ours.median
        return reached <= self.bound if self.at_most else reached >= self.bound


def verdict(target, comparison):
    """`ok`, `missed`, or `-` where no target was set, or where the peer of its ratio is missing."""
    if target is None or (target.of == "ratio" and comparison.ratio is None):
        return "-"
    return "ok" if target.met(comparison) else "missed"


NOTICEABLE = 0.03


def trend(comparison, less_is_better):
    """`slower`, `faster` or `same`: the median differs by more than 3 %, and every round differs the same way."""
    ratio = comparison.ratio
    if ratio.low > 1 and ratio.median > 1 + NOTICEABLE:
        return "slower" if less_is_better else "faster"
    if ratio.high < 1 and ratio.median < 1 - NOTICEABLE:
        return "faster" if less_is_better else "slower"
    return "same"
