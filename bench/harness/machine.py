"""The machine of a run: processor, kernel, versions, revision. Nothing that identifies it."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

TELLING_FLAGS = ("aes", "pclmulqdq", "vaes", "vpclmulqdq", "avx2", "avx512f", "sha_ni", "hypervisor")
SETTINGS = (
    "net/ipv4/tcp_wmem", "net/ipv4/tcp_rmem", "net/ipv4/tcp_notsent_lowat", "net/ipv4/tcp_congestion_control",
    "net/core/somaxconn",
)  # fmt: skip


def describe(repository, data, program, peers):
    """The facts for judging or repeating the run. `program` is the measured Penstock; `peers` are servers by their names."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "cpu_flags": _flags(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)),
        "kernel": kernel_version(os.uname().release),
        "file_system": _file_system(data),
        "settings": {name.replace("/", "."): _read(f"/proc/sys/{name}") for name in SETTINGS},
        "transparent_hugepages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_average_at_start": os.getloadavg()[0],
        "versions": {
            "penstock": _line([str(program), "--version"], r"penstock (\S+)"),
            **{name: str(peer.build()) for name, peer in peers.items()},
            "hitch": _line(["hitch", "--version"], r"hitch (\S+)"),
            "openssl": _said(["openssl", "version"]),
            "wrk": _line(["wrk", "--version"], r"wrk (\S+)"),
            "curl": _line(["curl", "--version"], r"(curl \S+)"),
            "rustc": _said(["rustc", "--version"]),
        },
        "program": digest(program),
        "peer_programs": {name: digest(peer.program) for name, peer in peers.items()},
        "revision": _said(["git", "-C", str(repository), "rev-parse", "HEAD"]),
        "uncommitted_changes": bool(
            _said(["git", "-C", str(repository), "status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"])
        ),
    }


def cpu_model():
    match = re.search(r"model name\s*:\s*(.*)", _read("/proc/cpuinfo"))
    return match.group(1) if match else os.uname().machine


def digest(program):
    """SHA-256 of a program, which shows that two parts of a run measured the same program."""
    path = shutil.which(program)
    if path is None:
        return "absent"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def slug(model, cores):
    """A name for the machine made of its processor: `amd-epyc-7763-2c`."""
    words = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", model.lower())
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") + f"-{cores}c"


def kernel_version(release):
    """The version without a distributor's or host's suffix."""
    match = re.match(r"\d+(\.\d+)*", release)
    return match.group(0) if match else "unknown"


def _flags():
    match = re.search(r"flags\s*:\s*(.*)", _read("/proc/cpuinfo"))
    present = set(match.group(1).split()) if match else set()
    return [flag for flag in TELLING_FLAGS if flag in present]


def _file_system(path):
    return _line(["stat", "--file-system", "--format", "%T", str(path)], r"(.*)")


def _read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _said(command):
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return "absent"
    return (ended.stdout + ended.stderr).strip()


def _line(command, pattern):
    match = re.search(pattern, _said(command))
    return match.group(1).strip() if match else "unknown"
