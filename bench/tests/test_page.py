"""The page and the drawing for the README: whole, without scripts, with the losses first."""

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

    def test_figures_show_their_target_and_what_physics_allows(self):
        html = page.html(FIGURES, FOUND, "x", [])
        figure = html[html.index("(a) 1 GiB file") : html.index("(b) 1 MiB files")]
        for wanted in ("target", "plain sendfile", "sendfile and sealing", "(ratio 1.29)"):
            self.assertIn(wanted, figure)

    def test_the_drawing_for_the_readme_is_xml_and_counts_cost(self):
        drawing = page.overview(FIGURES, FOUND, "A <machine>")
        words = [text.text for text in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("0.52", words)  # (a): less is better, the ratio itself
        self.assertIn("0.50", words)  # (b): more is better, so its inverse


class Bars(unittest.TestCase):
    def test_lengths_begin_at_zero_and_are_in_proportion(self):
        drawn = ElementTree.fromstring(chart([Bar("one", 2, 2, 2, "2"), Bar("two", 1, 1, 1, "1")]))
        long, short = (float(rect.get("width")) for rect in drawn.iter("{http://www.w3.org/2000/svg}rect"))
        self.assertAlmostEqual(long / short, 2, places=2)

    def test_a_line_beyond_every_bar_stays_in_the_drawing(self):
        drawn = chart([Bar("one", 1, 1, 1, "1")], [Line("far", 9)])
        self.assertIn("far", drawn)
        self.assertTrue(ElementTree.fromstring(drawn) is not None)


if __name__ == "__main__":
    unittest.main()
