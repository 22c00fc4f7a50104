"""What `penstock load` and `/metrics` tell of a storm: figures of a round, and its line of the table."""

import re

METRIC = re.compile(r'^(penstock_\w+)(?:\{(.*)\})? (\S+)$')
KEPT = tuple(
    f"penstock_{name}_total"
    for name in ("handshakes", "handshake_failures", "handshakes_queued", "connections_refused", "pressure_changes")
)
HEAD = (
    "| | storm, s | late | players stalled | time stalled | whole p50, ms | p99 | max | full | resumed | refused | waited p99, ms | CPU |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def summary(played, crowds):
    """Figures of a round from the reports of the players and of both parts of the storm."""
    shown, total = played["playback"], played["latency_ms"]["total"]
    refused = {}
    for crowd in crowds:
        for name, count in crowd["errors"].items():
            refused[name] = refused.get(name, 0) + count
    made, resumed = (sum(crowd[name] for crowd in crowds) for name in ("handshakes", "resumed"))
    return {
        "players": shown["players"],
        "segments": shown["segments"],
        "late": shown["stalls"],
        "players_stalled": shown["players_stalled"],
        "stall_ratio": round(shown["stall_ratio"], 4),
        "errors_of_players": played["errors"],
        "whole_ms": {name: total[name] for name in ("p50", "p99", "max")},
        "full": made - resumed,
        "resumed": resumed,
        "refused": refused,
        "waited_ms": max(crowd["latency_ms"]["tls"]["p99"] or 0 for crowd in crowds),
    }


def counted(metrics):
    """The counters of `/metrics` that tell of a storm, without those that are zero."""
    found = (METRIC.match(line) for line in metrics.splitlines())
    return {
        f"{match[1]}{{{match[2] or ''}}}": float(match[3])
        for match in found
        if match and match[1] in KEPT and float(match[3])
    }


def row(result):
    """A line of the table; its head without a result."""
    if result is None:
        return HEAD
    whole = result["whole_ms"]
    cells = [
        result["side"], result["storm_s"], f"{result['late']} of {result['segments']}",
        f"{result['players_stalled']} of {result['players']}", f"{100 * result['stall_ratio']:.1f} %",
        *(round(whole[name], 1) for name in ("p50", "p99", "max")), result["full"], result["resumed"],
        sum(result["refused"].values()), round(result["waited_ms"]), f"{100 * result['cpu']:.0f} %",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"
