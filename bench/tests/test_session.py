"""Failures and interruptions of a run. Servers and clients are fakes."""

import os
import signal
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from harness import session
from harness.figures import Figure
from harness.measures import Sample
from harness.session import Run
from harness.stopping import Stopped, bounded


class Played:
    """A server that is never started."""

    serves_files = is_by_path = False

    def __init__(self, *_):
        pass

    @classmethod
    def missing(cls):
        return []


class Ours(Played):
    name = "penstock"
    program = Path("/bin/true")


class Nginx(Played):
    name = "nginx"


class Caddy(Played):
    name = "caddy"


PEERS = {"nginx": Nginx, "caddy": Caddy}


def figure(letter, script=()):
    """A figure whose nth attempt follows the script for (server, attempt): raises the exception in it."""
    attempts = {}
    script = dict(script)

    def measure(make_server, _clients, _effort):
        name = type(make_server()).name
        attempts[name] = attempts.get(name, 0) + 1
        fault = script.get((name, attempts[name]))
        if callable(fault):
            fault()
        elif fault:
            raise fault
        return Sample(float(attempts[name]), {})

    return Figure(letter, f"figure {letter}", "ms", 0, None, measure, peers=tuple(PEERS))


class Taking(unittest.TestCase):
    """Runs `Run.take` with fake figures, without certificates, machine and checks."""

    def take(self, figures, earlier=None, limit_s=60, rounds=3):
        run = Run(figures, SimpleNamespace(bulk_bytes=0), "full", rounds, Ours, PEERS)
        kept = []
        described = {"cpu": "x", "kernel": "6.1", "program": "aa", "versions": {}, "absent": []}
        with (
            tempfile.TemporaryDirectory() as home,
            mock.patch.object(session.machine, "describe", lambda *_: dict(described)),
            mock.patch.object(session.fixtures, "make", lambda *_: None),
            mock.patch.object(session.fixtures, "fill_page_cache", lambda *_: None),
            mock.patch.object(session.fixtures, "certificate_command", lambda *_: ["certificate"]),
        ):
            found = run.take(Path(home), limit_s, earlier, lambda found: kept.append(list(found.raw)))
            self.assertEqual(os.listdir(home), [])
        return run, found, kept

    def values(self, found, letter):
        return {name: [one["value"] for one in rounds] for name, rounds in found.raw[letter].items()}

    def test_rounds_alternate_and_a_whole_run_lacks_nothing(self):
        order = []
        one = figure("a", {(name, n): lambda name=name: order.append(name) for name in ("penstock", *PEERS) for n in (1, 2)})
        run, found, kept = self.take([one], rounds=2)
        self.assertEqual(order, ["penstock", "nginx", "caddy"] * 2)
        self.assertEqual((found.lacking(), found.ended(), run.stopped, kept), ([], "", None, [["a"]]))

    def test_a_round_that_fails_once_is_taken_again_and_told(self):
        _, found, _ = self.take([figure("a", {("caddy", 2): RuntimeError("a client\nhung")})])
        self.assertEqual(self.values(found, "a"), {"penstock": [1, 2, 3], "nginx": [1, 2, 3], "caddy": [1, 3, 4]})
        self.assertEqual(found.machine["faults"], ["(a) round 2 of caddy was taken again: a client hung"])

    def test_a_peer_that_fails_twice_is_left_out_of_this_figure_only(self):
        faults = {("nginx", 2): TimeoutError("slow"), ("nginx", 3): ValueError("no JSON")}
        _, found, _ = self.take([figure("a", faults), figure("b")])
        self.assertEqual(self.values(found, "a"), {"penstock": [1, 2, 3], "caddy": [1, 2, 3]})
        self.assertEqual(found.machine["faults"], ["(a) nginx was left out: ValueError: no JSON"])
        self.assertEqual(sorted(found.raw["b"]), ["caddy", "nginx", "penstock"])
        self.assertEqual(found.lacking(), [])

    def test_a_fault_of_ours_fails_the_figure_and_nothing_else(self):
        faults = {("penstock", 2): RuntimeError("it hung"), ("penstock", 3): RuntimeError("it hung again")}
        run, found, _ = self.take([figure("a"), figure("b", faults), figure("c")])
        self.assertEqual(sorted(found.raw), ["a", "c"])
        failed = found.failed()["b"]
        self.assertEqual(failed["why"], "round 2 of 3: it hung again")
        self.assertEqual({name: len(rounds) for name, rounds in failed["taken"].items()}, {"penstock": 1, "nginx": 1, "caddy": 1})
        self.assertEqual((found.lacking(), found.ended(), run.stopped), (["b"], "", None))

    def test_what_was_taken_before_a_signal_is_kept_in_whole_rounds(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            stop = {("nginx", 3): lambda number=number: os.kill(os.getpid(), number)}
            run, found, kept = self.take([figure("a"), figure("b", stop), figure("c")])
            self.assertEqual(run.stopped.code, 128 + number)
            self.assertEqual(self.values(found, "b"), {"penstock": [1, 2], "nginx": [1, 2], "caddy": [1, 2]})
            self.assertEqual((found.partial(), found.lacking(), kept), ({"b": 2}, ["b", "c"], [["a"]]))
            self.assertIn("asked to stop", found.ended())

    def test_a_figure_without_one_whole_round_is_not_taken(self):
        stop = {("caddy", 1): lambda: os.kill(os.getpid(), signal.SIGTERM)}
        _, found, _ = self.take([figure("a", stop)])
        self.assertEqual((found.raw, found.partial(), found.lacking()), ({}, {}, ["a"]))

    def test_the_time_limit_is_no_fault_of_the_peer_whose_turn_it_was(self):
        late = {("nginx", 2): lambda: os.kill(os.getpid(), signal.SIGALRM)}
        run, found, _ = self.take([figure("a", late)], limit_s=120)
        self.assertEqual(run.stopped.code, 1)
        self.assertEqual(found.ended(), "it took more than 2 minutes")
        self.assertEqual((found.machine["faults"], found.partial()), ([], {"a": 1}))

    def test_a_run_that_goes_on_takes_what_is_lacking_and_only_that(self):
        stop = {("nginx", 2): lambda: os.kill(os.getpid(), signal.SIGINT)}
        failing = {("penstock", 1): RuntimeError("x"), ("penstock", 2): RuntimeError("x")}
        _, first, _ = self.take([figure("a"), figure("b", failing), figure("c", stop), figure("d")])
        again = [figure("a", {("penstock", 1): AssertionError("taken twice")}), figure("b"), figure("c"), figure("d")]
        _, found, kept = self.take(again, first)
        self.assertEqual((found.lacking(), found.failed(), found.partial(), found.ended()), ([], {}, {}, ""))
        self.assertEqual(self.values(found, "c"), {"penstock": [1, 2, 3], "nginx": [1, 2, 3], "caddy": [1, 2, 3]})
        self.assertEqual((len(kept), found.machine["run"]["parts"], found.machine["faults"]), (3, 2, []))

    def test_another_program_cannot_go_on_with_a_run(self):
        _, first, _ = self.take([figure("a")])
        first.machine["program"] = "bb"
        with self.assertRaisesRegex(RuntimeError, "program: bb before, aa now"):
            self.take([figure("a")], first)

    def test_a_peer_that_fails_its_check_is_left_out_and_ours_fails_its_figures(self):
        class Checked(Nginx):
            serves_files = True

            def __enter__(self):
                raise OSError("it did not start")

            def __exit__(self, *_):
                pass

        class OursChecked(Checked, Ours):
            name = "penstock"

        with mock.patch.dict(PEERS, nginx=Checked):
            _, found, _ = self.take([figure("a")])
        self.assertEqual(sorted(found.raw["a"]), ["caddy", "penstock"])
        self.assertIn("nginx was left out of all figures with tls1.3-ec: OSError: it did not start", found.machine["faults"])
        with mock.patch.dict(globals(), Ours=OursChecked):
            _, found, _ = self.take([figure("a")])
        self.assertEqual(found.failed()["a"]["why"], "OSError: it did not start")


class Bounds(unittest.TestCase):
    def test_a_second_signal_does_not_disturb_the_cleaning_up_and_the_handlers_come_back(self):
        before = signal.getsignal(signal.SIGINT)
        cleaned = []
        with self.assertRaises(Stopped), bounded(60):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                cleaned.append(True)
        self.assertEqual((cleaned, signal.getsignal(signal.SIGINT)), ([True], before))


if __name__ == "__main__":
    unittest.main()
