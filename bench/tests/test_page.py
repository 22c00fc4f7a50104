"""The page and the overview drawing: complete, without scripts, with the better peers first."""

import unittest
from xml.etree import ElementTree

from harness import page
from harness.bars import Bar, Line, chart
from harness.figures import FIGURES
from harness.record import Found

from .test_report import MACHINE


def rounds(*values, **more):
    return [{"value": value, **more} for value in values]


RAW = {
    "a": {"penstock": rounds(0.5, 0.6), "nginx": rounds(1.0, 1.1), "h2o": rounds(0.4, 0.45)},
    "b": {"penstock": rounds(1800, 1900), "nginx": rounds(900, 950)},
    "z": {"penstock": rounds(0.4, sendfile_cpu_s_per_gib=0.25, sealing_cpu_s_per_gib=0.15)},
}
FOUND = Found(RAW, MACHINE, ["penstock serve <x>"], {"nginx": "daemon off;"}, "2026-01-02")


class Page(unittest.TestCase):
    def test_the_page_needs_nothing_else_and_no_script(self):
        html = page.html(FIGURES, FOUND, "A <machine>", [])
        for wanted in ("A &lt;machine&gt;", "Some &lt;CPU&gt;", "penstock serve &lt;x&gt;", "prefers-color-scheme:dark"):
            self.assertIn(wanted, html)
        for unwanted in ("<script", "src=", "url(", "@import"):
            self.assertNotIn(unwanted, html)

    def test_where_a_peer_was_better_stands_before_every_figure(self):
        html = page.html(FIGURES, FOUND, "x", [])
        self.assertLess(html.index("h2o 0.425 CPU s/GiB, penstock 0.550 CPU s/GiB"), html.index("<figure>"))

    def test_figures_show_their_target_and_lower_bounds(self):
        html = page.html(FIGURES, FOUND, "x", [])
        figure = html[html.index("(a) 1 GiB file") : html.index("(b) 1 MiB files")]
        for wanted in ("target", "plain sendfile", "sendfile and sealing", "(ratio 1.29)"):
            self.assertIn(wanted, figure)

    def test_a_figure_in_which_ours_failed_has_the_reason_in_the_place_of_its_bars(self):
        machine = {**MACHINE, "failed": {"c": {"why": "round 1 of 2: it <hung>", "taken": {}}}}
        html = page.html(FIGURES, Found({"a": RAW["a"]}, machine), "x", [])
        figure = html[html.index("<h3>(c) 1 KiB file") :].split("</figure>")[0]
        self.assertIn("penstock failed; round 1 of 2: it &lt;hung&gt;", figure)
        self.assertNotIn("<svg", figure)

    def test_a_run_without_peers_has_a_page(self):
        html = page.html(FIGURES, Found({"a": {"penstock": RAW["a"]["penstock"]}, "e": {"penstock": rounds(6.1)}}, MACHINE), "x", [])
        targets = html[html.index("<h2>Targets") :]
        self.assertIn("(e)", targets)
        self.assertNotIn("(a)", targets)

    def test_a_detail_in_which_a_peer_was_better_names_its_figure(self):
        taken = {"penstock": [{"value": 1, "restart_s": 3, "kept_mib": 1}], "nginx": [{"value": 1, "restart_s": 2, "kept_mib": 1}]}
        html = page.html(FIGURES, Found({"w": taken}, MACHINE), "x", [])
        self.assertIn("(w) restarted, until hits are back: nginx 2.0 s, penstock 3.0 s", html)

    def test_the_drawing_for_the_readme_is_xml_and_counts_cost(self):
        drawing = page.overview(FIGURES, FOUND, "A <machine>")
        words = [text.text for text in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("0.52", words)  # (a): less is better, the ratio itself
        self.assertIn("0.50", words)  # (b): more is better, so its inverse


SVG = "{http://www.w3.org/2000/svg}"


def drawings(drawn):
    """The wide one and the narrow one."""
    return list(ElementTree.fromstring(f"<both>{drawn}</both>"))


class Bars(unittest.TestCase):
    def test_lengths_begin_at_zero_and_are_in_proportion(self):
        for drawn in drawings(chart([Bar("one", 2, 2, 2, "2"), Bar("two", 1, 1, 1, "1")])):
            long, short = (float(rect.get("width")) for rect in drawn.iter(SVG + "rect"))
            self.assertAlmostEqual(long / short, 2, places=2)

    def test_a_line_beyond_every_bar_stays_in_the_drawing(self):
        for drawn in drawings(chart([Bar("one", 1, 1, 1, "1")], [Line("far", 9)])):
            text = next(one for one in drawn.iter(SVG + "text") if one.text == "far")
            self.assertLess(float(text.get("x")), float(drawn.get("viewBox").split()[2]))

    def test_a_telephone_gets_a_drawing_with_letters_of_full_size(self):
        wide, narrow = drawings(chart([Bar("one", 1, 1, 1, "1")]))
        self.assertEqual([one.get("class") for one in (wide, narrow)], ["wide", "narrow"])
        self.assertLess(int(narrow.get("viewBox").split()[2]), 360)


if __name__ == "__main__":
    unittest.main()
