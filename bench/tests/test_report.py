"""The table and the stored run."""

import re
import unittest

from harness import report
from harness.record import Found
from harness.verdicts import losses
from harness.figures import FIGURES, Figure
from harness.stats import Target, compare

FASTER = Figure("a", "a big file", "CPU s/GiB", 3, Target("ratio", 0.5, at_most=True), None)
SLOWER = Figure("d", "a handshake", "CPU µs", 1, Target("ratio", 0.6, at_most=True), None)
RESULTS = [
    (FASTER, "nginx", compare([0.4, 0.5], [1.0, 1.0])), (FASTER, "h2o", compare([0.4, 0.5], [0.3, 0.3])),
    (SLOWER, "nginx", compare([90.0], [100.0])),
]
MACHINE = {
    "cpu": "Some <CPU>", "cores": 2, "kernel": "6.1", "revision": "0123456789abcdef", "uncommitted_changes": False,
    "file_system": "ext4", "versions": {"nginx": "1.22.1", "h2o": "absent"}, "absent": ["h2o"],
    "run": {"effort": "full", "rounds": 2, "ours": "penstock", "peers": ["nginx"]},
}


class Table(unittest.TestCase):
    def test_a_row_has_medians_spreads_ratio_target_and_verdict(self):
        self.assertEqual(report.rows(RESULTS)[0], (
            "a", "a big file", "CPU s/GiB", "0.450 (0.400..0.500)", "nginx", "1.000",
            "0.45 (0.40..0.50)", "≤ 0.5×", "ok",
        ))  # fmt: skip
        self.assertEqual(report.rows(RESULTS)[2][-1], "missed")

    def test_another_peer_of_a_figure_gets_a_row_without_what_stands_above_and_without_a_verdict(self):
        row = report.rows(RESULTS)[1]
        self.assertEqual(row[:6] + row[7:], ("", "", "", "", "h2o", "0.300", "-", "-"))

    def test_every_line_of_the_table_is_equally_wide(self):
        lines = report.terminal_table("penstock", RESULTS, colour=False).splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_colour_changes_nothing_but_colour(self):
        plain = report.terminal_table("penstock", RESULTS, colour=False)
        coloured = report.terminal_table("penstock", RESULTS, colour=True)
        self.assertIn("\033[31mmissed", coloured)
        self.assertEqual(re.sub(r"\033\[\d+m", "", coloured), plain)

    def test_where_a_peer_was_better_is_told_first_and_with_its_doubt(self):
        self.assertEqual(losses(RESULTS), ["(a) a big file: h2o 0.300 CPU s/GiB, penstock 0.450 CPU s/GiB"])
        doubtful = [(FASTER, "nginx", compare([1.0, 1.0, 1.0], [0.9, 0.9, 1.1]))]
        self.assertIn("some rounds say otherwise", losses(doubtful)[0])
        more = Figure("b", "files", "req/CPU s", 0, None, None, less_is_better=False)
        self.assertEqual(losses([(more, "nginx", compare([9.0], [4.0]))]), [])
        found = Found({"a": {"penstock": [{"value": 2.0}], "nginx": [{"value": 1.0}]}}, MACHINE)
        page = report.summary([FASTER], found)
        self.assertLess(page.index("Where a peer was better"), page.index("| a |"))
        self.assertIn("h2o was left out", page)

    def test_a_crowded_core_is_told(self):
        raw = {"a": {"penstock": [{"core_foreign_share": 0.01}], "nginx": [{"core_foreign_share": 0.3}]}}
        found = Found(raw, MACHINE)
        self.assertEqual(report.warnings(found), ["others used the server's core during a round, at most: (a) 30%"])
        raw["a"]["nginx"][0]["core_foreign_share"] = 0.01
        self.assertEqual(report.warnings(found), [])

    def test_the_figures_are_those_of_the_project(self):
        bounds = {figure.letter: figure.target and figure.target.bound for figure in FIGURES}
        self.assertEqual(bounds, {
            "a": 0.5, "b": 2.0, "c": 1.2, "d": 0.5, "e": 8.0, "f": None, "g": None,
            "h": 0.5, "i": 0.8, "j": 0.5, "k": 0.4, "l": None, "m": None, "n": None, "o": None, "p": None, "q": None,
            "r": None, "s": None, "x": None, "t": None, "u": None, "v": 0.5, "4a": None, "4b": None, "w": None, "y": None, "z": None,
            "2a": 0.5, "2b": None, "2c": 2.0, "2d": 2.0, "2e": 8.0, "2f": None,
            "5a": 0.7, "5b": 0.7, "5c": 1.2, "5d": 0.7,
            "3a": 0.5, "3b": 0.5, "3c": 0.5, "3d": 0.5, "3e": None, "3f": None,
        })  # fmt: skip

    def test_details_of_the_same_rounds_get_rows_without_a_target(self):
        storm = Figure("l", "last", "ms", 0, Target("ratio", 1.0, at_most=True), None, also=(("half", "p50_ms", "ms", 0),))
        taken = {"penstock": [{"value": 4.0, "p50_ms": 1.0}], "nginx": [{"value": 8.0, "p50_ms": 4.0}]}
        rows = report.rows(storm.rows(taken, "penstock", ("nginx",)))
        self.assertEqual([row[:2] + row[6:] for row in rows], [
            ("l", "last", "0.50", "≤ 1×", "ok"), ("", "half", "0.25", "-", "-"),
        ])  # fmt: skip


    def test_a_detail_that_an_older_run_has_not_recorded_is_left_out(self):
        storm = Figure("l", "last", "ms", 0, None, None, also=(("half", "p50_ms", "ms", 0),))
        taken = {"penstock": [{"value": 4.0}], "nginx": [{"value": 8.0}]}
        self.assertEqual([row[0].title for row in storm.rows(taken, "penstock", ("nginx",))], ["last"])

    def test_what_is_ours_alone_has_no_ratio(self):
        session = Figure("m", "a session", "bytes", 0, Target("value", 300, at_most=True), None, peers=())
        rows = report.rows(session.rows({"penstock": [{"value": 250}]}, "penstock", ()))
        self.assertEqual(rows[0][3:], ("250", "-", "-", "-", "≤ 300", "ok"))


if __name__ == "__main__":
    unittest.main()
