"""The run as one self-contained page of HTML, and as one small overview drawing."""

import json
from html import escape

from .bars import LONG_NAMES, Bar, Line, chart
from .fixtures import GIB
from .measures import BODY_OF
from .stats import verdict
from .verdicts import counted, gaps, losses, results_of

STYLE = """
:root{--paper:#fff;--ink:#1c2024;--soft:#60686f;--rule:#dfe3e6;--card:#f7f8f9;--ours:#0b6bcb;--theirs:#aeb6bd;
--spread:#1c2024;--target:#b3261e;--physics:#2e7d32;--warn:#fff4e0;--bad:#fdeceb;--warn-rule:#e0a030}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--ink:#e8eaed;--soft:#9aa3ab;--rule:#30363b;--card:#1c2024;
--ours:#5aa9f5;--theirs:#59626a;--spread:#e8eaed;--target:#ff8a80;--physics:#81c784;--warn:#2c2416;--bad:#321b1a;--warn-rule:#a87a20}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:860px;margin:0 auto;padding:40px 20px 80px}
h1{font-size:30px;line-height:1.2;margin:0 0 4px}h2{font-size:21px;margin:44px 0 12px}h3{font-size:16px;margin:0}
p{margin:0 0 12px}.soft,figcaption{color:var(--soft);font-size:14px}
.lost{background:var(--warn);border-left:4px solid var(--warn-rule);padding:14px 18px;margin:24px 0;border-radius:4px}
.gaps{background:var(--bad);border-left:4px solid var(--target);padding:14px 18px;margin:24px 0;border-radius:4px}
.lost h2,.gaps h2{margin:0 0 6px;font-size:17px}ul{margin:0;padding-left:20px}li{margin:2px 0}
figure{margin:14px 0;padding:14px 16px 8px;background:var(--card);border:1px solid var(--rule);border-radius:8px}
.head{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 16px;align-items:baseline}
.head span{color:var(--soft);font-size:14px;white-space:nowrap}
svg{display:block;width:100%;height:auto;margin:6px 0 8px}svg.narrow{display:none}
@media (max-width:640px){main{padding:24px 14px 60px}h1{font-size:25px}svg.wide{display:none}svg.narrow{display:block}
figure{padding:12px 12px 6px}.head span{white-space:normal}.lost,.gaps{padding:12px 14px}td,th{overflow-wrap:anywhere}}
svg text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink);dominant-baseline:central}
text.ours{font-weight:600}text.note{font-size:12px}
figure text{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}rect.ours{fill:var(--ours)}rect.theirs{fill:var(--theirs)}
.spread{stroke:var(--spread);stroke-width:1.2;fill:none;opacity:.65}
.line{stroke-width:1.4;stroke-dasharray:4 3;fill:none}path.target{stroke:var(--target)}path.physics{stroke:var(--physics)}
text.target{fill:var(--target)}text.physics{fill:var(--physics)}
table{border-collapse:collapse;width:100%;font-size:14px}td,th{padding:5px 10px 5px 0;text-align:left;
border-bottom:1px solid var(--rule);vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}
.ok{color:var(--physics);font-weight:600}.missed{color:var(--target);font-weight:600}
details{margin:10px 0}summary{cursor:pointer}pre{overflow-x:auto;background:var(--card);border:1px solid var(--rule);
border-radius:6px;padding:12px;font-size:12.5px;line-height:1.45}a{color:var(--ours)}
"""
OVERVIEW = ("a", "b", "p", "c", "d", "i", "k", "v", "e")
OVERVIEW_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2024;dominant-baseline:central}.s{fill:#60686f;font-size:12px}"
    ".p{fill:#fff}.o{fill:#0b6bcb}.w{fill:#b3261e}.one{stroke:#60686f;stroke-dasharray:3 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e8eaed}.s{fill:#9aa3ab}.p{fill:#15181b}.o{fill:#5aa9f5}.w{fill:#ff8a80}}"
)
MOVED_BY = {"segments": "b o s", "pieces": "p q"}  # figures in requests, by the size of their bodies


def html(figures, found, heading, warnings):
    """The whole page."""
    results = results_of(figures, found)
    run, machine = found.machine["run"], found.machine
    lost = losses(results)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Penstock beside its peers</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<style>{STYLE}</style></head><body><main><h1>Penstock beside its peers</h1>"
        f'<p class="soft">{escape(heading)}. Revision {escape(machine["revision"][:12])}'
        f'{" with uncommitted changes" if machine["uncommitted_changes"] else ""}, {run["effort"]} run of '
        f"{counted(run['rounds'], 'round')}. One worker on one core, the client on another. Bars are medians, whiskers the lowest and the highest round; a "
        f"ratio is {escape(run['ours'])}’s figure divided by the peer’s, taken within each round.</p>",
        _gaps(gaps(figures, found)),
        _lost(lost),
        _notes(warnings),
        *(f'<p class="soft">{escape(name)} was left out: it is not installed.</p>' for name in machine["absent"]),
        _at_a_glance(figures, found),
    ]
    figures = [figure for figure in figures if figure.letter in {**found.raw, **found.failed()}]
    for group in dict.fromkeys(figure.group for figure in figures):
        parts.append(f"<h2>{escape(group)}</h2>")
        parts += [_figure(figure, found) for figure in figures if figure.group == group]
    parts += [_ratios(results), _machine(machine), _record(found), "</main></body></html>"]
    return "\n".join(parts) + "\n"


def _gaps(told):
    if not told:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in told)
    return f'<div class="gaps"><h2>What this run has not measured</h2><ul>{lines}</ul></div>'


def _notes(told):
    if not told:
        return ""
    return '<div class="soft"><ul>' + "".join(f"<li>{escape(line)}</li>" for line in told) + "</ul></div>"


def _lost(lost):
    if not lost:
        return '<div class="lost"><h2>No peer was better in any figure of this run.</h2></div>'
    lines = "".join(f"<li>{escape(line)}</li>" for line in lost)
    return f'<div class="lost"><h2>Where a peer was better</h2><ul>{lines}</ul></div>'


def _figure(figure, found):
    """A figure and the details of the same rounds, each with its bars."""
    run = found.machine["run"]
    if figure.letter in found.failed():
        why = f"{run['ours']} failed; {found.failed()[figure.letter]['why']}"
        return f'<figure>{_head(figure)}<p class="missed">{escape(why)}</p></figure>'
    rows = figure.rows(found.raw[figure.letter], run["ours"], figure.peers)
    if not figure.peers:
        bars = [_bar(part.title.removeprefix("plain ").removesuffix(" alone"), comparison.ours, part, None) for part, _, comparison in rows[1:]]
        return f"<figure>{_head(figure)}{chart(bars, (), figure.title)}</figure>"
    drawn = []
    for part in dict.fromkeys(row[0] for row in rows):
        mine = [(peer, comparison) for one, peer, comparison in rows if one is part]
        bars = [_bar(run["ours"], mine[0][1].ours, part, None)]
        bars += [_bar(peer, comparison.theirs, part, comparison) for peer, comparison in mine if peer]
        drawn.append(_head(part) + chart(bars, _lines(part, mine, found), part.title))
    return "<figure>" + "\n".join(drawn) + "</figure>"


def _head(part):
    better = "less is better" if part.less_is_better else "more is better"
    letter = f"({part.letter}) " if part.letter else ""
    unit = f"{part.unit}, {better}" if part.unit else better
    return f'<div class="head"><h3>{escape(letter + part.title)}</h3><span>{escape(unit)}</span></div>'


def _bar(name, spread, part, comparison):
    words = f"{spread.median:,.{part.digits}f}"
    if comparison:
        words += f"   (ratio {comparison.ratio.median:.2f})"
    return Bar(name, spread.median, spread.low, spread.high, words, comparison is None)


def _lines(part, mine, found):
    """The target and the lower bounds, as far as they exist for this figure."""
    lines = []
    nginx = next((comparison for peer, comparison in mine if peer == "nginx"), None)
    if part.target and (nginx or part.target.of == "value"):
        bound = part.target.bound * (nginx.theirs.median if part.target.of == "ratio" else 1)
        lines.append(Line("target", bound))
    physics = found.raw.get("z")
    if physics and part.letter:
        rounds = physics[found.machine["run"]["ours"]]
        # The minimum of all rounds, because disturbances only add.
        moving = min(one["sendfile_cpu_s_per_gib"] for one in rounds)
        sealed = moving + min(one["sealing_cpu_s_per_gib"] for one in rounds)
        lines += _physics(part, moving, sealed)
    return lines


def _physics(part, moving, sealed):
    if part.letter in ("a", "v", "t"):
        return [Line("plain sendfile", moving, "physics"), Line("sendfile and sealing", sealed, "physics")]
    for scenario, letters in MOVED_BY.items():
        if part.letter in letters.split():
            name, cost = ("plain sendfile", moving) if part.is_plain else ("sendfile and sealing", sealed)
            return [Line(name, GIB / BODY_OF[scenario] / cost, "physics")]
    return []


def _ratios(results):
    """Targets and whether they were met."""
    rows = []
    for figure, peer, comparison in results:
        met = verdict(figure.target, comparison)
        if met == "-" or peer not in (None, "nginx"):
            continue
        reached = comparison.ratio if figure.target.of == "ratio" else comparison.ours
        sign = "at most" if figure.target.at_most else "at least"
        rows.append(
            f"<tr><td>({figure.letter}) {escape(figure.title)}</td><td class=n>{reached.median:.2f}</td>"
            f"<td>{sign} {figure.target.bound:g}{' of nginx’s' if figure.target.of == 'ratio' else ' ' + figure.unit}</td>"
            f'<td class="{met}">{met}</td></tr>'
        )
    if not rows:
        return ""
    return "<h2>Targets</h2><table><tr><th>figure<th>reached<th>target<th></tr>" + "".join(rows) + "</table>"


def _machine(machine):
    said = {
        "processor": f"{machine['cpu']}, {machine['cores']} cores", "flags": " ".join(machine.get("cpu_flags", [])),
        "memory": f"{machine.get('memory_gib', '?')} GiB", "kernel": machine["kernel"], "files on": machine["file_system"],
        **machine.get("settings", {}), **machine["versions"],
    }  # fmt: skip
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in said.items())
    return f"<h2>Machine and versions</h2><table>{rows}</table>"


def _record(found):
    """Commands and configurations, folded."""
    seconds = found.machine.get("seconds", {})
    took = ", ".join(f"({letter}) {value:.0f} s" for letter, value in seconds.items())
    parts = ["<h2>How to repeat it</h2>", f'<p class="soft">Took {escape(took)}.</p>' if took else ""]
    parts.append(f"<details><summary>Commands</summary><pre>{escape(chr(10).join(found.commands))}</pre></details>")
    for name, config in found.configs.items():
        parts.append(f"<details><summary>Configuration: {escape(name)}</summary><pre>{escape(config)}</pre></details>")
    raw = json.dumps(found.raw, separators=(",", ":"))
    parts.append(f"<details><summary>Every round, as JSON</summary><pre>{escape(raw)}</pre></details>")
    return "\n".join(parts)


def overview(figures, found, heading):
    """A few figures as cost beside nginx's, so that shorter is always better."""
    costs = _costs(figures, found)
    if not costs:
        return ""
    width, label, row, top = 760, 250, 26, 52
    height = top + row * len(costs) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><style>{OVERVIEW_STYLE}</style>',
        f'<rect class="p" width="{width}" height="{height}" rx="6"/>',
        '<text x="14" y="18" style="font-weight:600">What Penstock needs, nginx = 1 (processor time; memory for idle '
        "connections)</text>",
        f'<text class="s" x="14" y="37">{escape(heading)}</text>',
    ]
    most = max([1.1, *(cost for _, cost in costs)])
    space = width - label - 70
    for number, (figure, cost) in enumerate(costs):
        y = top + row * number + row / 2
        kind = "o" if cost <= 1 else "w"
        parts.append(f'<text x="{label - 10}" y="{y}" text-anchor="end">{escape(figure.title)}</text>')
        parts.append(f'<rect class="{kind}" x="{label}" y="{y - 8}" width="{cost / most * space:.1f}" height="16" rx="2"/>')
        parts.append(f'<text x="{label + cost / most * space + 8:.1f}" y="{y}">{cost:.2f}</text>')
    one = label + space / most
    parts.append(f'<path class="one" d="M{one:.1f} {top - 2}V{height - 22}"/>')
    parts.append(f'<text class="s" x="{one:.1f}" y="{height - 11}" text-anchor="middle">nginx</text></svg>')
    return "".join(parts) + "\n"


def _at_a_glance(figures, found):
    """The same at the top of the page."""
    costs = _costs(figures, found)
    if not costs:
        return ""
    bars = [Bar(figure.title, cost, cost, cost, f"{cost:.2f}", True) for figure, cost in costs]
    head = '<div class="head"><h3>At a glance</h3><span>processor time (idle connection: memory), nginx = 1, less is better</span></div>'
    return f"<figure>{head}{chart(bars, [Line('nginx', 1)], 'At a glance', LONG_NAMES)}</figure>"


def _costs(figures, found):
    """The figures of the overview that were taken beside nginx, each with its cost."""
    chosen = [figure for figure in figures if figure.letter in OVERVIEW and found.raw.get(figure.letter, {}).get("nginx")]
    chosen.sort(key=lambda figure: OVERVIEW.index(figure.letter))
    return [(figure, _cost(figure, found.raw[figure.letter], found.machine["run"]["ours"])) for figure in chosen]


def _cost(figure, taken, ours):
    both = {name: taken[name] for name in (ours, "nginx")}
    ratio = figure.rows(both, ours, ("nginx",))[0][2].ratio.median
    return ratio if figure.less_is_better else 1 / ratio
