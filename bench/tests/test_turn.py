"""Measurements take turns."""

import tempfile
import unittest
from pathlib import Path

from harness.turn import turn


class Turns(unittest.TestCase):
    def test_a_second_measurement_is_refused_while_the_first_runs_and_let_in_afterwards(self):
        with tempfile.TemporaryDirectory() as home:
            lock = Path(home) / "lock"
            with turn(lock), self.assertRaises(RuntimeError), turn(lock, limit_s=0):
                self.fail("two measurements at once")
            with turn(lock, limit_s=0):
                pass


if __name__ == "__main__":
    unittest.main()
