"""The program of another revision, built in a worktree and a target directory of its own.

The target directory is kept and starts with the libraries that this tree has built, because the C library alone takes
minutes. The last programs are kept, too. `cargo clean` removes all of it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .turn import turn

BUILD_LIMIT_S = 40 * 60
GIT_LIMIT_S = 120
KEPT_PROGRAMS = 5
SEEDS = ("build", "deps", ".fingerprint")  # of `target/release`
OWN = "penstock"  # in the names of files built from the workspace, which differ between revisions


class Revisions:
    """Builds revisions of the repository at `repository`, below its `target/compare`."""

    def __init__(self, repository):
        self.repository = Path(repository)
        self.home = self.repository / "target/compare"
        self.tree = self.home / "tree"

    def git(self, *words):
        command = ["git", "-C", str(self.repository), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_LIMIT_S)
        if done.returncode:
            raise RuntimeError(f"git {words[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def commit(self, revision):
        """The full commit hash of a name such as `HEAD~5` or `main`."""
        return self.git("rev-parse", "--verify", f"{revision}^{{commit}}")

    def program(self, commit):
        """The program of a commit, built unless it is one of the kept programs."""
        program = self.home / f"penstock-{commit[:12]}"
        self.home.mkdir(parents=True, exist_ok=True)
        with turn(self.home / "lock", BUILD_LIMIT_S, "another build of an earlier revision"):
            if not program.exists():
                self._build(commit, program)
            os.utime(program)
            self._forget(program)
        return program

    def _build(self, commit, program):
        self._remove_tree()  # of a build that was killed
        target = self.home / "target"
        if not target.exists():
            seed(self.repository / "target/release", target / "release")
        self.git("worktree", "add", "--force", "--detach", self.tree, commit)
        try:
            made = cargo_build(self.tree, target)
            new = program.with_suffix(".new")
            shutil.copy2(made, new)
            new.rename(program)
        finally:
            self._remove_tree()

    def _remove_tree(self):
        shutil.rmtree(self.tree, ignore_errors=True)
        self.git("worktree", "prune")

    def _forget(self, last):
        """Only the last few programs are kept."""
        programs = [path for path in self.home.glob("penstock-*") if path.suffix != ".new" and path != last]
        programs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in programs[KEPT_PROGRAMS - 1 :]:
            path.unlink()


def seed(source, target):
    """Copy the compiled dependencies with their times, by which cargo recognises them."""
    for name in SEEDS:
        if (source / name).is_dir():
            copied = target / name
            copied.mkdir(parents=True)
            for entry in (source / name).iterdir():
                if OWN in entry.name:
                    continue
                (shutil.copytree if entry.is_dir() else shutil.copy2)(entry, copied / entry.name)


def cargo_build(tree, target):
    """Build the server of a source tree. Returns its path."""
    print(f"building penstock in {os.path.relpath(tree)} (release)...", file=sys.stderr)
    command = ["cargo", "build", "--release", "--locked", "--package", "penstock", "--target-dir", str(target)]
    done = subprocess.run(command, cwd=tree, stdout=sys.stderr, timeout=BUILD_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"cargo ended with {done.returncode} in {tree}")
    return target / "release/penstock"
