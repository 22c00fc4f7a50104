"""The stored run: without paths of the machine, complete at every moment, with its missing figures."""

import json
import tempfile
import unittest
from pathlib import Path

from harness import record, report
from harness.record import Found
from harness.verdicts import gaps, results_of

from .test_report import FASTER, MACHINE, SLOWER

ROUNDS = {"penstock": [{"value": 2.0}], "nginx": [{"value": 1.0}]}


def run_of(figures, raw, **more):
    """A run that was planned with these figures and has the results `raw`."""
    run = {**MACHINE["run"], "figures": figures, "ended": more.pop("ended", "")}
    return Found(raw, {**MACHINE, "run": run, **more}, ["one"], {"nginx": "x"})


class Storing(unittest.TestCase):
    def test_paths_and_ports_of_this_machine_are_left_out(self):
        said = record.anonymous("wrk -s /src/p/bench/wrk.lua https://localhost:41233/ /tmp/x1/www", ("/tmp/x1",), "/src/p")
        self.assertEqual(said, "wrk -s ./bench/wrk.lua https://localhost:$PORT/ $RUN/www")
        said = record.anonymous("python3 bulk.py 41233 /bulk.bin; nginx -p /tmp/x1/nginx-abcde_12 -c x", ("/tmp/x1",), "/src")
        self.assertEqual(said, "python3 bulk.py $PORT /bulk.bin; nginx -p $RUN/nginx -c x")
        said = record.anonymous("/opt/here/penstock serve -c /tmp/x1/penstock-abcde_12/penstock.yaml", ("/tmp/x1",), "/src")
        self.assertEqual(said, "penstock serve -c $RUN/penstock/penstock.yaml")

    def test_a_run_is_read_as_it_was_written_and_another_gets_another_directory(self):
        with tempfile.TemporaryDirectory() as parent:
            first = record.new_directory(Path(parent), "cpu-2c")
            found = run_of(["a"], {"a": ROUNDS})
            record.write(first, found)
            report.render(first, [FASTER], found)
            self.assertNotEqual(first, record.new_directory(Path(parent), "cpu-2c"))
            self.assertEqual(json.loads((first / "raw.json").read_text()), found.raw)
            again = record.load(first)
            self.assertEqual((again.raw, again.machine, again.commands, again.configs, again.day),
                             (found.raw, found.machine, found.commands, found.configs, found.day))

    def test_writing_again_puts_the_longer_run_in_the_place_of_the_shorter_and_leaves_nothing_else(self):
        with tempfile.TemporaryDirectory() as parent:
            directory = Path(parent) / "run"
            record.write(directory, run_of(["a", "d"], {"a": ROUNDS}))
            names = sorted(path.name for path in directory.iterdir())
            record.write(directory, run_of(["a", "d"], {"a": ROUNDS, "d": ROUNDS}))
            self.assertEqual(record.load(directory).lacking(), [])
            self.assertEqual(sorted(path.name for path in directory.iterdir()), names)


class Lacking(unittest.TestCase):
    def test_a_run_lacks_what_was_not_taken_what_failed_and_what_has_too_few_rounds(self):
        failed = {"c": {"why": "round 1 of 2: it hung", "taken": {}}}
        found = run_of(["a", "b", "c", "d"], {"a": ROUNDS, "b": ROUNDS}, failed=failed, partial={"b": 1}, ended="it was stopped")
        self.assertEqual(found.lacking(), ["b", "c", "d"])
        self.assertEqual(run_of(["a"], {"a": ROUNDS}).lacking(), [])

    def test_a_run_stored_before_there_were_such_notes_lacks_nothing(self):
        found = Found({"a": ROUNDS}, MACHINE)
        self.assertEqual((found.lacking(), gaps([FASTER], found)), ([], []))

    def test_failures_and_gaps_are_told_with_their_reasons_and_before_everything_else(self):
        failed = {"a": {"why": "round 2 of 5: it <hung>", "taken": {"penstock": [{"value": 1}], "nginx": []}}}
        found = run_of(["a", "d", "x"], {"d": ROUNDS}, failed=failed, partial={"d": 1}, ended="it was asked to stop")
        self.assertEqual(gaps([FASTER, SLOWER], found), [
            "(a) a big file: penstock failed; round 2 of 5: it <hung>",
            "The run is incomplete: it was asked to stop.",
            "Not taken: (x) ",
            "(d) a handshake: 1 of 2 rounds",
        ])  # fmt: skip
        with tempfile.TemporaryDirectory() as parent:
            report.render(Path(parent), [FASTER, SLOWER], found)
            page, summary = (Path(parent, name).read_text() for name in ("report.html", "summary.md"))
        for text, sign, first in ((page, "it &lt;hung&gt;", "Where a peer was better"), (summary, "it <hung>", "| d |")):
            self.assertLess(text.index(sign), text.index(first))
            self.assertIn("The run is incomplete: it was asked to stop", text)

    def test_a_figure_that_failed_has_no_results(self):
        found = run_of(["a", "d"], {"d": ROUNDS}, failed={"a": {"why": "x", "taken": ROUNDS}})
        self.assertEqual([figure.letter for figure, _, _ in results_of([FASTER, SLOWER], found)], ["d"])


class Differences(unittest.TestCase):
    def test_another_machine_or_revision_is_named(self):
        self.assertEqual(record.differences(MACHINE, MACHINE), [])
        self.assertEqual(record.differences(MACHINE, {**MACHINE, "load_average_at_start": 3}), [])
        told = record.differences(MACHINE, {**MACHINE, "kernel": "6.2", "revision": "fedc"})
        self.assertEqual(told, ["kernel: 6.1 before, 6.2 now", "revision: 0123456789abcdef before, fedc now"])

    def test_the_same_program_may_come_from_another_revision_but_no_other_program_from_the_same(self):
        before = {**MACHINE, "program": "aa"}
        self.assertEqual(record.differences(before, {**before, "revision": "fedc", "uncommitted_changes": True}), [])
        self.assertEqual(record.differences(before, {**before, "program": "bb"}), ["program: aa before, bb now"])


if __name__ == "__main__":
    unittest.main()
