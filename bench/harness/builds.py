"""The builds of the peers: a peer by the path of its program, and what the program says of its version and TLS library."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LABEL = re.compile(r"[a-z0-9.]+")
LIMIT_S = 20
# What each kind of peer is asked, the pattern of its version, and those of its TLS library, the best first.
QUESTIONS = {
    "nginx": ("-V", r"nginx/(\S+)", (r"\(running with (.+)\)", r"built with (?=.*SSL|AWS-LC)(.+)")),
    "h2o": ("-v", r"h2o version (\S+)", (r"OpenSSL: (.+)",)),
    "haproxy": ("-vv", r"version (\S+)", (r"Running on (?:OpenSSL|SSL library) version : (.+)",)),
    "caddy": ("version", r"(\S+)", ()),
    "varnish": ("-V", r"varnish-(\S+)", ()),
}
BY_PATH = ("nginx", "h2o", "haproxy", "caddy")


def kind_of(name):
    """The kind of a peer, which is its name without a label: `nginx` of `nginx-mainline`."""
    return name.partition("-")[0]


def of_kinds(names, kinds):
    """The names of the peers of these kinds, in the order of the kinds, one without a label first."""
    return [name for kind in kinds for name in sorted(names) if kind_of(name) == kind]


@dataclass(frozen=True)
class Build:
    """One build of a peer. `library` is the file of a shared TLS library, empty if the program contains it."""

    version: str = "unknown"
    tls: str = ""
    library: str = ""
    by_path: bool = False

    @property
    def number(self):
        """The first parts of the version, to be compared."""
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))

    @property
    def has_openssl(self):
        """Whether its TLS library is OpenSSL itself, which reads OpenSSL's configuration file."""
        return self.tls.startswith("OpenSSL") and "compatible" not in self.tls

    def __str__(self):
        where = self.library or "in the program"
        return self.version + (f" with {self.tls} ({where})" if self.tls else "") + (", by --peer" if self.by_path else "")


def add_argument(parser):
    """The argument of a program that measures peers of any build."""
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PATH",
        help=f"this build of {', '.join(BY_PATH)}; a name with a label, as in nginx-new, stands beside the peer without one",
    )  # fmt: skip


def by_path(given, known):
    """The classes of the peers that are given as `NAME=PATH`, by their names. `known` are the classes of servers by kind.
    Fails in words."""
    made = {}
    for one in given:
        name, _, path = one.partition("=")
        kind, hyphen, label = name.partition("-")
        if kind not in BY_PATH or (hyphen and not LABEL.fullmatch(label)):
            raise ValueError(f"no such peer: {one}; NAME=PATH, where NAME is one of {', '.join(BY_PATH)}, or one with a label: nginx-new")
        if name in made:
            raise ValueError(f"{name} is there twice; a label tells two builds apart: {name}-new")
        if not shutil.which(path) or "/" not in path:
            raise ValueError(f"{path or 'nothing'} is no path of a program that can be executed")
        program = str(Path(path).resolve())
        if not _said(program, QUESTIONS[kind][0]) or read(kind, program).version == "unknown":
            raise ValueError(f"{path} does not say its version as {kind} does")
        made[name] = type(known[kind].__name__, (known[kind],), {"name": name, "program": program, "needs": (program,), "is_by_path": True})
    return made


@cache
def read(kind, program, is_by_path=False):
    """The build of a program, in its own words."""
    question, version, libraries = QUESTIONS[kind]
    said = _said(program, question)
    found = re.search(version, said)
    tls = next((match.group(1).strip() for pattern in libraries if (match := re.search(pattern, said))), "")
    if kind == "caddy" and (go := re.search(r"^go\s+(\S+)", _said(program, "build-info"), re.MULTILINE)):
        tls = f"crypto/tls of {go.group(1)}"
    return Build(found.group(1) if found else "unknown", tls, _library(program), is_by_path)


def _library(program):
    """The file name of the shared TLS library that a program is linked with."""
    linked = re.search(r"^\s*(libssl\S*)", _said("ldd", shutil.which(program) or program), re.MULTILINE)
    return linked.group(1) if linked else ""


def _said(program, *arguments):
    try:
        ended = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout + ended.stderr
