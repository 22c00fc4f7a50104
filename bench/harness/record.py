"""A run on disk: every round, the machine, the commands, the configurations; complete or partial."""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from datetime import date

# The facts that must be equal for two parts of one run. Load and free memory may differ.
SAME = (
    "cpu", "cores", "memory_gib", "kernel", "file_system", "settings", "transparent_hugepages", "versions", "revision",
    "uncommitted_changes", "program", "peer_programs",
)  # fmt: skip


@dataclass
class Found:
    """The results of a run: rounds by figure and server, the machine, the commands, the configurations."""

    raw: dict
    machine: dict
    commands: list = field(default_factory=list)
    configs: dict = field(default_factory=dict)
    day: str = field(default_factory=lambda: str(date.today()))

    def failed(self):
        """Figures in which Penstock failed: by letter, the reason and the rounds before it."""
        return self.machine.get("failed", {})

    def partial(self):
        """Figures of fewer rounds than planned: by letter, their number."""
        return self.machine.get("partial", {})

    def lacking(self):
        """The letters of planned figures that are missing or incomplete."""
        meant = self.machine["run"].get("figures", list(self.raw))
        return [letter for letter in meant if letter not in self.raw or letter in self.partial()]

    def ended(self):
        """The reason for an early end, or empty."""
        return self.machine["run"].get("ended", "")


def differences(before, now):
    """The differences between the machines of two runs, in words."""
    told = []
    for name in SAME:
        # The program's own version is more precise than the revision of the sources.
        if name in ("revision", "uncommitted_changes") and before.get("program") and before["program"] == now.get("program"):
            continue
        if before.get(name) != now.get(name):
            told.append(f"{name}: {before.get(name)} before, {now.get(name)} now")
    return told


def anonymous(text, homes, repository, programs=()):
    """Replace directories and ports of this run, and the paths of `programs`."""
    for program in programs:
        text = text.replace(str(program), program.name)
    for home in homes:
        text = text.replace(str(home), "$RUN")
    text = text.replace(str(repository), ".").replace(sys.executable, "python3")
    text = re.sub(r"(?<![\w$.])/[^\s:]*/(?=penstock\b)", "", text)  # a binary from another place
    text = re.sub(r"(?<=\$RUN/)((?:nginx|penstock|earlier|h2o|caddy|haproxy|varnish)(?:-[a-z0-9.]+)?)-\w{8}\b", r"\1", text)  # its own directory
    return re.sub(r"(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+|(?<=\.py )\d+|(?<=port: )\d+", "$PORT", text)


def write(directory, found):
    """Write the results over the earlier ones of the same run. Each file is complete at every moment."""
    directory.mkdir(parents=True, exist_ok=True)
    put(directory / "raw.json", json.dumps(found.raw, indent=1) + "\n")
    put(directory / "machine.json", json.dumps(found.machine, indent=1, ensure_ascii=False) + "\n")
    put(directory / "commands.txt", "\n".join(found.commands) + "\n")
    put(directory / "configurations.json", json.dumps(found.configs, indent=1) + "\n")


def put(path, text):
    """Write a file by renaming one that is complete."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def load(directory):
    """A stored run."""
    read = {name: json.loads((directory / f"{name}.json").read_text()) for name in ("raw", "machine", "configurations")}
    commands = (directory / "commands.txt").read_text().splitlines()
    day = re.match(r"\d{4}-\d\d-\d\d", directory.name)
    return Found(read["raw"], read["machine"], commands, read["configurations"], day.group() if day else read["machine"].get("day", ""))


def new_directory(parent, slug):
    """`DATE-SLUG`, with a number appended when there is one already."""
    name = f"{date.today()}-{slug}"
    candidate, number = parent / name, 1
    while candidate.exists():
        number += 1
        candidate = parent / f"{name}-{number}"
    return candidate
