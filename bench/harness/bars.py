"""Bars as inline SVG: one for each server, with the spread of its rounds, and lines for targets and physics.

Nothing here knows what a figure means; it is given numbers and words. Colours are classes, which the page's style sheet
has for light and for dark.
"""

from dataclasses import dataclass
from html import escape

WIDTH, LABEL, VALUE = 760, 92, 176  # of the drawing, of the names on the left, of the numbers on the right
ROW, BAR, TOP, FOOT = 30, 16, 6, 20


@dataclass(frozen=True)
class Bar:
    """One server's median with its spread, and the words for it."""

    name: str
    median: float
    low: float
    high: float
    words: str
    is_ours: bool = False


@dataclass(frozen=True)
class Line:
    """A value that is no server's: a target, or what physics allows."""

    name: str
    value: float
    kind: str = "target"  # or "physics": the class of the line


def chart(bars, lines=(), label=""):
    """The drawing. Its scale begins at zero, so that lengths can be compared."""
    ends = [max(bar.high, bar.median) for bar in bars] + [line.value for line in lines]
    top = max([*ends, 1e-12]) * 1.02
    room = WIDTH - LABEL - VALUE

    def x(value):
        return LABEL + max(0.0, value) / top * room

    height = TOP + ROW * len(bars) + (FOOT * len(lines) if lines else 0)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    for number, bar in enumerate(bars):
        parts += _bar(bar, TOP + ROW * number + (ROW - BAR) / 2, x)
    bottom = TOP + ROW * len(bars)
    for number, line in enumerate(sorted(lines, key=lambda one: one.value)):
        parts += _line(line, x(line.value), bottom, bottom + FOOT * number)
    return "".join([*parts, "</svg>"])


def _bar(bar, y, x):
    middle = y + BAR / 2
    side = "ours" if bar.is_ours else "theirs"
    yield f'<text class="name {side}" x="{LABEL - 10}" y="{middle:.1f}" text-anchor="end">{escape(bar.name)}</text>'
    width = max(1.0, x(bar.median) - LABEL)
    yield f'<rect class="bar {side}" x="{LABEL}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2"/>'
    if bar.high > bar.low:
        low, high = x(bar.low), x(bar.high)
        yield f'<path class="spread" d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"/>'
    # In a column of their own, where no line runs through them.
    yield f'<text class="value {side}" x="{WIDTH - VALUE + 14}" y="{middle:.1f}">{escape(bar.words)}</text>'


def _line(line, x, bottom, label_top):
    yield f'<path class="line {line.kind}" d="M{x:.1f} {TOP - 4}V{label_top + 5:.1f}"/>'
    anchor, shift = ("end", -6) if x > WIDTH * 0.6 else ("start", 6)
    yield (
        f'<text class="note {line.kind}" x="{x + shift:.1f}" y="{label_top + 11:.1f}" text-anchor="{anchor}">'
        f"{escape(line.name)}</text>"
    )
