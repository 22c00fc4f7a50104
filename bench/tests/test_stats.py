"""The arithmetic of pairs and targets."""

import unittest

from harness.stats import Spread, Target, compare, spread, trend, verdict


class Spreads(unittest.TestCase):
    def test_the_median_of_an_odd_number_is_the_middle_one(self):
        self.assertEqual(spread([9.0, 1.0, 4.0]), Spread(4.0, 1.0, 9.0))

    def test_the_median_of_an_even_number_is_between_the_middle_two(self):
        self.assertEqual(spread([1.0, 2.0, 4.0, 9.0]).median, 3.0)

    def test_one_outlier_does_not_move_the_median(self):
        self.assertEqual(spread([1.0, 1.0, 1.0, 1.0, 50.0]).median, 1.0)

    def test_no_rounds_are_refused(self):
        with self.assertRaises(ValueError):
            spread([])


class Comparisons(unittest.TestCase):
    def test_ratios_are_taken_pair_by_pair_not_from_the_medians(self):
        compared = compare([1.0, 10.0, 3.0], [2.0, 5.0, 3.0])
        self.assertEqual(compared.ratio, Spread(1.0, 0.5, 2.0))
        self.assertEqual(compared.ours.median / compared.theirs.median, 1.0)
        self.assertEqual(compare([1.0, 10.0], [2.0, 5.0]).ratio.median, 1.25)

    def test_a_drift_that_hits_both_servers_leaves_the_ratio_alone(self):
        compared = compare([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
        self.assertEqual(compared.ratio, Spread(0.5, 0.5, 0.5))

    def test_unequal_numbers_of_rounds_are_refused(self):
        with self.assertRaises(ValueError):
            compare([1.0, 2.0], [1.0])


class Trends(unittest.TestCase):
    def test_what_every_round_says_and_the_median_shows_is_a_trend(self):
        worse = compare([1.1, 1.05, 1.2], [1.0, 1.0, 1.0])
        self.assertEqual(trend(worse, less_is_better=True), "slower")
        self.assertEqual(trend(worse, less_is_better=False), "faster")
        self.assertEqual(trend(compare([0.9, 0.8], [1.0, 1.0]), less_is_better=False), "slower")

    def test_one_round_that_says_otherwise_is_enough_to_doubt(self):
        self.assertEqual(trend(compare([1.1, 1.2, 0.99], [1.0, 1.0, 1.0]), less_is_better=True), "same")

    def test_less_than_three_percent_is_no_trend(self):
        self.assertEqual(trend(compare([1.02, 1.02], [1.0, 1.0]), less_is_better=True), "same")


class Targets(unittest.TestCase):
    def test_at_most_is_met_on_the_bound_and_below(self):
        target = Target("ratio", 0.5, at_most=True)
        self.assertEqual(verdict(target, compare([0.4], [1.0])), "ok")
        self.assertEqual(verdict(target, compare([0.5], [1.0])), "ok")
        self.assertEqual(verdict(target, compare([0.51], [1.0])), "missed")

    def test_at_least_is_met_on_the_bound_and_above(self):
        target = Target("ratio", 2.0, at_most=False)
        self.assertEqual(verdict(target, compare([2.0], [1.0])), "ok")
        self.assertEqual(verdict(target, compare([1.9], [1.0])), "missed")

    def test_a_target_of_a_value_looks_at_ours_alone(self):
        target = Target("value", 8.0, at_most=True)
        self.assertEqual(verdict(target, compare([7.0], [1.0])), "ok")
        self.assertEqual(verdict(target, compare([9.0], [90.0])), "missed")

    def test_a_figure_without_a_target_has_no_verdict(self):
        self.assertEqual(verdict(None, compare([1.0], [1.0])), "-")

    def test_a_target_of_a_ratio_has_no_verdict_without_the_peer(self):
        self.assertEqual(verdict(Target("ratio", 0.5, at_most=True), compare([0.4], [])), "-")

    def test_a_target_of_something_else_is_refused(self):
        with self.assertRaises(ValueError):
            verdict(Target("spread", 1.0, at_most=True), compare([1.0], [1.0]))


if __name__ == "__main__":
    unittest.main()
