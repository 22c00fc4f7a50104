"""The table and the stored run."""

import json
import re
import tempfile
import unittest
from pathlib import Path

from harness import report
from harness.figures import FIGURES, Figure
from harness.stats import Target, compare

FASTER = Figure("a", "a big file", "CPU s/GiB", 3, Target("ratio", 0.5, at_most=True), None)
SLOWER = Figure("d", "a handshake", "CPU µs", 1, Target("ratio", 0.6, at_most=True), None)
RESULTS = [(FASTER, compare([0.4, 0.5], [1.0, 1.0])), (SLOWER, compare([90.0], [100.0]))]


class Table(unittest.TestCase):
    def test_a_row_has_medians_spreads_ratio_target_and_verdict(self):
        self.assertEqual(report.rows(RESULTS)[0], (
            "a", "a big file", "CPU s/GiB", "0.450 (0.400..0.500)", "1.000 (1.000..1.000)",
            "0.45 (0.40..0.50)", "≤ 0.5×", "ok",
        ))  # fmt: skip
        self.assertEqual(report.rows(RESULTS)[1][-1], "missed")

    def test_every_line_of_the_table_is_equally_wide(self):
        lines = report.terminal_table(("penstock", "nginx"), RESULTS, colour=False).splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_colour_changes_nothing_but_colour(self):
        plain = report.terminal_table(("penstock", "nginx"), RESULTS, colour=False)
        coloured = report.terminal_table(("penstock", "nginx"), RESULTS, colour=True)
        self.assertIn("\033[31mmissed", coloured)
        self.assertEqual(re.sub(r"\033\[\d+m", "", coloured), plain)

    def test_a_crowded_core_is_told(self):
        raw = {"a": {"penstock": [{"core_foreign_share": 0.01}], "nginx": [{"core_foreign_share": 0.3}]}}
        self.assertEqual(report.warnings(raw), ["(a) others used up to 30% of the server's core during a round"])
        raw["a"]["nginx"][0]["core_foreign_share"] = 0.01
        self.assertEqual(report.warnings(raw), [])

    def test_the_figures_are_those_of_the_project(self):
        bounds = {figure.letter: figure.target and figure.target.bound for figure in FIGURES}
        self.assertEqual(bounds, {
            "a": 0.5, "b": 2.0, "c": 1.2, "d": 0.5, "e": 8.0, "f": None, "g": None,
            "h": 0.5, "i": 0.8, "j": 0.5, "k": 0.4, "l": None, "m": None, "n": None,
        })  # fmt: skip

    def test_details_of_the_same_rounds_get_rows_without_a_target(self):
        storm = Figure("l", "last", "ms", 0, Target("ratio", 1.0, at_most=True), None, also=(("half", "p50_ms"),))
        taken = {"penstock": [{"value": 4.0, "p50_ms": 1.0}], "nginx": [{"value": 8.0, "p50_ms": 4.0}]}
        rows = report.rows(storm.rows(taken, ("penstock", "nginx")))
        self.assertEqual([row[:2] + row[5:] for row in rows], [
            ("l", "last", "0.50 (0.50..0.50)", "≤ 1×", "ok"), ("", "half", "0.25 (0.25..0.25)", "-", "-"),
        ])  # fmt: skip


    def test_what_is_ours_alone_has_no_ratio(self):
        session = Figure("m", "a session", "bytes", 0, Target("value", 300, at_most=True), None, alone=True)
        rows = report.rows(session.rows({"penstock": [{"value": 250}], "nginx": []}, ("penstock", "nginx")))
        self.assertEqual(rows[0][3:], ("250 (250..250)", "-", "-", "≤ 300", "ok"))


class Storing(unittest.TestCase):
    def test_paths_and_ports_of_this_machine_are_left_out(self):
        said = report.anonymous("wrk -s /src/p/bench/wrk.lua https://localhost:41233/ /tmp/x1/www", "/tmp/x1", "/src/p")
        self.assertEqual(said, "wrk -s ./bench/wrk.lua https://localhost:$PORT/ $RUN/www")
        said = report.anonymous("python3 bulk.py 41233 /bulk.bin; nginx -p /tmp/x1/nginx-ab_12 -c x", "/tmp/x1", "/src")
        self.assertEqual(said, "python3 bulk.py $PORT /bulk.bin; nginx -p $RUN/nginx -c x")
        said = report.anonymous("/opt/here/penstock serve -c /tmp/x1/penstock-ab_12/penstock.yaml", "/tmp/x1", "/src")
        self.assertEqual(said, "penstock serve -c $RUN/penstock/penstock.yaml")

    def test_a_run_is_never_overwritten(self):
        with tempfile.TemporaryDirectory() as parent:
            first = report.new_directory(Path(parent), "cpu-2c")
            report.store(first, {"a": {}}, {"cpu": "x"}, ["one"], "page\n")
            second = report.new_directory(Path(parent), "cpu-2c")
            self.assertNotEqual(first, second)
            self.assertEqual(json.loads((first / "raw.json").read_text()), {"a": {}})
            with self.assertRaises(FileExistsError):
                report.store(first, {}, {}, [], "")


if __name__ == "__main__":
    unittest.main()
