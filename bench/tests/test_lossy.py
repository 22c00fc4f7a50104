"""A direction of a path, without devices."""

import unittest

from harness.lossy import Path, _Lane

PACKET = bytes(1250)  # ten milliseconds at 1 Mbit/s


def lane(**more):
    return _Lane(0, 0, Path(**{"loss": 0.0, "delay_s": 0.02, "bits_per_s": 1_000_000, "queue_s": 0.1, **more}), 1)


class Directions(unittest.TestCase):
    def test_packets_arrive_in_order_behind_rate_and_delay(self):
        made = lane()
        for _ in range(3):
            made.add(PACKET, 5.0)
        self.assertEqual([round(due, 6) for due, _ in made.under_way], [5.03, 5.04, 5.05])
        made.add(PACKET, 6.0)
        self.assertAlmostEqual(made.under_way[-1][0], 6.03)

    def test_a_full_queue_drops_the_last_packet(self):
        made = lane()
        for _ in range(20):
            made.add(PACKET, 5.0)
        self.assertEqual((len(made.under_way), made.dropped), (11, 9))

    def test_as_many_packets_are_lost_as_the_path_says_and_the_same_with_the_same_seed(self):
        made, again = lane(loss=0.05, queue_s=1e9), lane(loss=0.05, queue_s=1e9)
        for one in (made, again):
            for _ in range(20_000):
                one.add(PACKET, 5.0)
        self.assertTrue(800 < made.lost < 1200, made.lost)
        self.assertEqual((made.lost, list(made.under_way)), (again.lost, list(again.under_way)))


if __name__ == "__main__":
    unittest.main()
