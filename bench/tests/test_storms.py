"""Figures of a storm from the reports of its clients."""

import unittest

from harness.storms import counted, row, summary

PLAYED = {
    "errors": {"body_timeout": 1},
    "latency_ms": {"total": {"p50": 2.25, "p99": 40.0, "max": 900.0, "mean": 3.0}},
    "playback": {"players": 10, "players_stalled": 2, "segments": 150, "stalls": 3, "stall_ratio": 0.01234},
}


def crowd(handshakes, resumed, p99, errors):
    return {"handshakes": handshakes, "resumed": resumed, "errors": errors, "latency_ms": {"tls": {"p99": p99}}}


class Storms(unittest.TestCase):
    def test_both_parts_of_a_storm_are_added(self):
        crowds = [crowd(800, 0, 1900.0, {"closed_in_handshake": 40}), crowd(200, 190, 12.0, {"closed_in_handshake": 1, "connect_timeout": 2})]
        found = summary(PLAYED, crowds)
        self.assertEqual((found["full"], found["resumed"]), (810, 190))
        self.assertEqual(found["refused"], {"closed_in_handshake": 41, "connect_timeout": 2})
        self.assertEqual((found["waited_ms"], found["late"], found["players_stalled"]), (1900.0, 3, 2))
        self.assertEqual(found["errors_of_players"], {"body_timeout": 1})

    def test_a_storm_without_any_handshake_has_figures(self):
        found = summary(PLAYED, [crowd(0, 0, None, {"connect_refused": 5})])
        self.assertEqual((found["full"], found["waited_ms"]), (0, 0))

    def test_a_line_has_as_many_cells_as_the_head(self):
        found = {"side": "auto", "storm_s": 4.5, "cpu": 0.987, **summary(PLAYED, [crowd(1, 0, 2.0, {})])}
        head, dashes = row(None).split("\n")
        self.assertEqual({head.count("|"), dashes.count("|")}, {row(found).count("|")})
        self.assertIn("| 3 of 150 | 2 of 10 | 1.2 % |", row(found))

    def test_counters_that_are_not_zero_are_kept_and_others_left_out(self):
        text = (
            "# TYPE penstock_handshake_failures_total counter\n"
            'penstock_handshake_failures_total{reason="rate_limited"} 12\n'
            'penstock_handshake_failures_total{reason="timeout"} 0\n'
            "penstock_requests_total 7\n"
        )
        self.assertEqual(counted(text), {'penstock_handshake_failures_total{reason="rate_limited"}': 12.0})


if __name__ == "__main__":
    unittest.main()
