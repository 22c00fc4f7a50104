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

    def test_what_h2load_says_is_read_and_a_failed_request_is_a_fault(self):
        said = (
            "finished in 1.50s, 583.95 req/s, 600.56KB/s\n"
            "requests: 20 total, 20 started, 20 done, 20 succeeded, {} failed, 0 errored, 0 timeout\n"
            "traffic: 20.09MB (21062615) total, 188.17KB (192685) headers (space savings 95.28%), 19.53MB (20480000) data\n"
        )
        self.assertEqual(clients.parse_h2load(said.format(0)), {"requests": 20, "bytes": 20_480_000, "seconds": 1.5})
        with self.assertRaisesRegex(RuntimeError, "20 succeeded, 1 failed"):
            clients.parse_h2load(said.format(1))
        with self.assertRaisesRegex(RuntimeError, "told no .*requests"):
            clients.parse_h2load("finished in 1s")


if __name__ == "__main__":
    unittest.main()
