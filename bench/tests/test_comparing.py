"""The comparison of two revisions: its text, and the build of the other revision."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import comparing, revisions
from harness.figures import Figure
from harness.revisions import Revisions, seed
from harness.stats import compare

COST = Figure("d", "a handshake", "CPU µs", 1, None, None)
RATE = Figure("b", "files", "req/CPU s", 0, None, None, less_is_better=False)
SLOWER = (COST, "earlier", compare([106.0, 104.0, 105.0], [100.0, 100.0, 100.0]))
FASTER = (RATE, "earlier", compare([1100.0, 1080.0, 1090.0], [1000.0, 1000.0, 1000.0]))
NOISE = (COST, "earlier", compare([110.0, 99.0, 105.0], [100.0, 100.0, 100.0]))
ALONE = (COST, None, compare([100.0], []))


class Words(unittest.TestCase):
    def test_slower_is_what_every_round_says_whichever_way_is_better(self):
        self.assertEqual([comparing.said(one[0], one[2]) for one in (SLOWER, FASTER, NOISE, ALONE)],
                         ["slower", "faster", "same", "no pair"])  # fmt: skip
        self.assertEqual(comparing.slower([FASTER, NOISE, ALONE]), [])
        self.assertEqual(len(comparing.slower([FASTER, SLOWER])), 1)

    def test_the_table_has_both_the_difference_with_its_spread_and_a_word(self):
        line = comparing.table([SLOWER], "0123456789ab", colour=False).splitlines()[3]
        self.assertEqual(re.split(r"\s*│\s*", line)[1:-1], [
            "d", "a handshake", "CPU µs", "100.0", "105.0 (104.0..106.0)", "+5.0 % (+4.0..+6.0)", "slower",
        ])  # fmt: skip
        coloured = comparing.table([SLOWER, ALONE], "x", colour=True)
        self.assertIn("\033[31mslower", coloured)
        self.assertEqual(re.sub(r"\033\[\d+m", "", coloured), comparing.table([SLOWER, ALONE], "x", colour=False))

    def test_the_conclusion_names_what_is_slower_or_says_that_nothing_is(self):
        self.assertEqual(list(comparing.conclusion([SLOWER, FASTER], 3)), ["slower: (d) a handshake, +5.0 % (+4.0..+6.0) CPU µs"])
        self.assertEqual(list(comparing.conclusion([NOISE], 5)), ["Nothing is slower by more than 3% in every round."])
        self.assertIn("fewer than 3 rounds", list(comparing.conclusion([NOISE], 1))[-1])
        self.assertEqual(list(comparing.conclusion([], 1)), [])


class Building(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.repository = Path(home.name)
        self.git("init", "--quiet")
        for number in (1, 2):
            (self.repository / "source").write_text(str(number))
            self.git("add", "source")
            self.git("-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--message", "x")
        self.revisions = Revisions(self.repository)

    def git(self, *words):
        subprocess.run(["git", "-C", self.repository, *words], check=True, capture_output=True, timeout=60)

    def built(self, revision):
        """Builds with a cargo that only copies the source. Returns the program and the number of calls."""
        asked = []

        def build(tree, target):
            asked.append(tree)
            (target / "release").mkdir(parents=True, exist_ok=True)
            made = target / "release/penstock"
            made.write_text((tree / "source").read_text())
            return made

        with mock.patch.object(revisions, "cargo_build", build):
            return self.revisions.program(self.revisions.commit(revision)), len(asked)

    def test_a_revision_is_built_once_from_its_own_sources_and_no_worktree_is_left(self):
        program, asked = self.built("HEAD~1")
        self.assertEqual((program.read_text(), asked), ("1", 1))
        self.assertEqual(self.built("HEAD~1"), (program, 0))
        self.assertEqual(self.built("HEAD")[0].read_text(), "2")
        self.assertEqual((self.repository / "source").read_text(), "2")
        self.assertFalse(self.revisions.tree.exists())
        listed = subprocess.run(["git", "-C", self.repository, "worktree", "list"], capture_output=True, text=True, timeout=60)
        self.assertEqual(len(listed.stdout.splitlines()), 1)

    def test_what_a_killed_build_left_behind_is_no_obstacle(self):
        self.revisions.tree.mkdir(parents=True)
        (self.revisions.tree / "half").write_text("x")
        self.assertEqual(self.built("HEAD")[1], 1)

    def test_a_revision_that_is_not_there_is_a_fault_with_words(self):
        with self.assertRaisesRegex(RuntimeError, "git rev-parse"):
            self.revisions.commit("no-such-revision")

    def test_libraries_of_others_are_taken_over_with_their_times_and_ours_are_not(self):
        source = self.repository / "target/release"
        for name in ("deps/libring-1.rlib", "deps/libpenstock_tls-2.rlib", "build/boring-sys-3/out"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text("x")
        target = self.repository / "copy"
        seed(source, target)
        copied = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
        self.assertEqual(copied, ["build/boring-sys-3/out", "deps/libring-1.rlib"])
        self.assertEqual((target / copied[1]).stat().st_mtime_ns, (source / copied[1]).stat().st_mtime_ns)


if __name__ == "__main__":
    unittest.main()
