"""Bars as inline SVG: one for each server, with the spread of its rounds, and lines for targets and lower bounds.

Every chart is drawn twice, for a wide page and for a telephone, and the style sheet shows one of the two: letters that
shrink with the drawing are unreadable. This module gets numbers and words and does not depend on the meaning of a figure. Colours
are classes, which the page's style sheet has for light and for dark.
"""

from dataclasses import dataclass
from html import escape

BAR, TOP, FOOT = 16, 6, 18


@dataclass(frozen=True)
class Layout:
    """The layout: names and numbers beside the bars, or above each bar in a narrow picture."""

    kind: str
    width: int
    label: int  # the width of the names on the left
    value: int  # the width of the numbers on the right
    row: int
    bar: int  # from the top of a row to its bar

    @property
    def is_stacked(self):
        return self.label == 0


WIDE = Layout("wide", 760, 92, 176, 30, 7)
LONG_NAMES = Layout("wide", 760, 280, 70, 26, 5)
NARROW = Layout("narrow", 340, 0, 6, 44, 21)


@dataclass(frozen=True)
class Bar:
    """One server's median with its spread and its label."""

    name: str
    median: float
    low: float
    high: float
    words: str
    is_ours: bool = False


@dataclass(frozen=True)
class Line:
    """A value to compare with: a target or a lower bound."""

    name: str
    value: float
    kind: str = "target"  # or "physics": the class of the line


def chart(bars, lines=(), label="", wide=WIDE):
    """The drawing, for both widths. Its scale begins at zero, so that lengths can be compared."""
    return _drawn(bars, lines, label, wide) + _drawn(bars, lines, label, NARROW)


def _drawn(bars, lines, label, layout):
    ends = [max(bar.high, bar.median) for bar in bars] + [line.value for line in lines]
    top = max([*ends, 1e-12]) * 1.02
    space = layout.width - layout.label - layout.value

    def x(value):
        return layout.label + max(0.0, value) / top * space

    height = TOP + layout.row * len(bars) + (FOOT * len(lines) + 4 if lines else 0)
    parts = [
        f'<svg class="{layout.kind}" viewBox="0 0 {layout.width} {height}" role="img" aria-label="{escape(label)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    ]
    lines = sorted(lines, key=lambda one: one.value)
    bottom = TOP + layout.row * len(bars)
    for number, bar in enumerate(bars):
        parts += _bar(bar, TOP + layout.row * number + layout.bar, x, layout)
    # Lines are drawn over bars, and words over lines.
    parts += [_line(line, x(line.value), bottom + FOOT * number) for number, line in enumerate(lines)]
    for number, bar in enumerate(bars):
        parts += _words(bar, TOP + layout.row * number, layout)
    parts += [_name(line, x(line.value), bottom + FOOT * number, layout) for number, line in enumerate(lines)]
    return "".join([*parts, "</svg>"])


def _side(bar):
    return "ours" if bar.is_ours else "theirs"


def _bar(bar, y, x, layout):
    middle = y + BAR / 2
    width = max(1.0, x(bar.median) - layout.label)
    yield f'<rect class="bar {_side(bar)}" x="{layout.label}" y="{y:.1f}" width="{width:.1f}" height="{BAR}" rx="2"/>'
    if bar.high > bar.low:
        low, high = x(bar.low), x(bar.high)
        yield f'<path class="spread" d="M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"/>'


def _words(bar, top, layout):
    if layout.is_stacked:
        name, value, y = (0, "start"), (layout.width, "end"), top + 10
    else:
        name, value, y = (layout.label - 10, "end"), (layout.width - layout.value + 14, "start"), top + layout.bar + BAR / 2
    yield f'<text class="name {_side(bar)}" x="{name[0]}" y="{y:.1f}" text-anchor="{name[1]}">{escape(bar.name)}</text>'
    yield f'<text class="value {_side(bar)}" x="{value[0]}" y="{y:.1f}" text-anchor="{value[1]}">{escape(bar.words)}</text>'


def _line(line, x, label_top):
    return f'<path class="line {line.kind}" d="M{x:.1f} {TOP - 4}V{label_top + 5:.1f}"/>'


def _name(line, x, label_top, layout):
    anchor, shift = ("end", -6) if x > layout.width * 0.6 else ("start", 6)
    return (
        f'<text class="note {line.kind}" x="{x + shift:.1f}" y="{label_top + 11:.1f}" text-anchor="{anchor}">'
        f"{escape(line.name)}</text>"
    )
