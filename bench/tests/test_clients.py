"""A client that hangs, or prints nothing, ends with a reason."""

import subprocess
import sys
import unittest

from harness import clients


def client(program):
    return subprocess.Popen(
        [sys.executable, "-c", program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


class Faults(unittest.TestCase):
    def test_a_client_that_hangs_is_ended_and_named(self):
        hanging = client("import time; time.sleep(3600)")
        with self.assertRaisesRegex(RuntimeError, "more than 0.2 s: .*time.sleep"):
            clients._json(hanging, 0.2)
        self.assertIsNotNone(hanging.returncode)

    def test_a_client_without_an_answer_is_a_fault_and_not_an_error_of_the_harness(self):
        with self.assertRaisesRegex(RuntimeError, "printed no JSON: nothing"):
            clients._answer(client("pass"), 60)
        with self.assertRaisesRegex(RuntimeError, "printed no JSON: half"):
            clients._answer(client("print('half')"), 60)
        with self.assertRaisesRegex(RuntimeError, "a client failed: .*no route"):
            clients._answer(client("raise SystemExit('no route')"), 60)

    def test_the_answer_is_the_last_line(self):
        self.assertEqual(clients._answer(client("print('words'); print('{\"a\": 1}')"), 60), {"a": 1})

    def test_who_never_says_the_first_line_is_not_waited_for_without_end(self):
        silent = client("import sys; sys.stdin.read()")
        self.assertEqual(clients._first_line(silent, 0.2), "")
        silent.communicate()


if __name__ == "__main__":
    unittest.main()
