"""The results of a run, and the figures in which a peer was better."""


def results_of(figures, found):
    """(figure, peer, comparison) for every figure that was taken."""
    run = found.machine["run"]
    results = []
    for figure in figures:
        if figure.letter in found.raw:
            results += figure.rows(found.raw[figure.letter], run["ours"], figure.peers)
    return results


def gaps(figures, found):
    """A line for each figure in which Penstock failed, then for each missing figure of an interrupted run."""
    titles = {figure.letter: figure.title for figure in figures}
    ours = found.machine["run"]["ours"]
    lines = [f"({letter}) {titles.get(letter, '')}: {ours} failed; {one['why']}" for letter, one in found.failed().items()]
    if found.ended():
        lines.append(f"The run is incomplete: {found.ended()}.")
    untouched = [letter for letter in found.lacking() if letter not in {**found.failed(), **found.partial()}]
    if untouched:
        lines.append("Not taken: " + ", ".join(f"({letter}) {titles.get(letter, '')}" for letter in untouched))
    for letter, rounds in found.partial().items():
        lines.append(f"({letter}) {titles.get(letter, '')}: {rounds} of {counted(found.machine['run']['rounds'], 'round')}")
    return lines


def counted(number, what):
    """`1 round`, `5 rounds`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def is_lost(figure, comparison):
    """Whether the peer's median is the better one."""
    if comparison.ratio is None:
        return False
    return comparison.ratio.median > 1 if figure.less_is_better else comparison.ratio.median < 1


def is_clear(comparison):
    """Whether every round agrees."""
    return not comparison.ratio.low <= 1 <= comparison.ratio.high


def losses(results):
    """A line for each figure in which a peer was better, the clear ones first."""
    lines, letter = [], ""
    for figure, peer, comparison in results:
        letter = figure.letter or letter  # details have none of their own and follow their figure
        if not is_lost(figure, comparison):
            continue
        ours, theirs = (f"{one.median:,.{figure.digits}f}" for one in (comparison.ours, comparison.theirs))
        unit = f" {figure.unit}" if figure.unit else ""
        doubt = "" if is_clear(comparison) else "; some rounds say otherwise"
        line = f"({letter}) {figure.title}: {peer} {theirs}{unit}, penstock {ours}{unit}{doubt}"
        lines.append((not is_clear(comparison), line))
    return [line for _, line in sorted(lines, key=lambda one: one[0])]
