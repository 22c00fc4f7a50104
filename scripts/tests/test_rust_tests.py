"""Tests of scripts/rust-tests: a test that fails beside the others fails the run, unless it is listed with a reason."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "rust-tests"
HANGING = SCRIPT.parent / "end-hanging-tests"
# A cargo whose first run has one failure, with the others or in the guest; alone, that test ends with the code of the file `alone`.
CARGO = """#!/bin/sh
case "$*" in
  *--exact*) exit "$(cat alone)" ;;
  *--no-run) exit ;;
  *--test\\ ktls) found=$(cat guest) ;;
  *) found=$(cat others); test -n "$PENSTOCK_GUEST_APART" || exit 100 ;;
esac
echo "test a::b ... $found"
case $found in ok*) ;; *) exit 101 ;; esac
"""


class RustTests(unittest.TestCase):
    def run_with(self, listed: str, alone: int, others="FAILED", guest="ok (1.2 s)") -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "scripts").mkdir()
            for script in [SCRIPT, HANGING]:
                shutil.copy(script, root / "scripts")
            (root / "scripts/unstable-tests").write_text(listed)
            for name, text in {"alone": str(alone), "others": others, "guest": guest}.items():
                (root / name).write_text(text)
            (root / "cargo").write_text(CARGO)
            (root / "cargo").chmod(0o755)
            done = subprocess.run([root / "scripts/rust-tests"], capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            done.noted = (root / "target/unstable-tests").read_text()
            return done

    def test_a_test_that_passes_alone_fails_the_run(self):
        done = self.run_with("# a::b: a comment\na::b:\na::bc: slow\n", 0)
        self.assertEqual((done.returncode, done.noted), (1, ""))
        self.assertIn("mend these tests:\n   a::b\n", done.stdout)

    def test_a_test_that_fails_in_the_guest_fails_the_run(self):
        done = self.run_with("", 0, others="ok", guest="FAILED (1.2 s)")
        self.assertEqual((done.returncode, done.noted), (1, ""))
        self.assertIn("mend these tests:\n   a::b\n", done.stdout)

    def test_a_run_without_a_failure_shows_both_parts(self):
        done = self.run_with("", 1, others="ok")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "test a::b ... ok\ntest a::b ... ok (1.2 s)\n")

    def test_a_listed_one_with_a_reason_does_not_and_is_named(self):
        done = self.run_with("a::b: the kernel of some machines rounds its timer\n", 0)
        self.assertEqual((done.returncode, done.noted), (0, "a::b\n"))

    def test_a_listed_one_that_fails_alone_too_fails_the_run(self):
        done = self.run_with("a::b: the kernel of some machines rounds its timer\n", 101)
        self.assertEqual((done.returncode, done.noted), (1, ""))
        self.assertIn("failed again alone", done.stdout)


class HangingTests(unittest.TestCase):
    def run_with(self, program: str) -> tuple[str, str]:
        """What the script says of a test program that is this script of a shell, and what that says itself."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "deps").mkdir()
            shutil.copy(shutil.which("sh"), root / "deps/program")
            slow = "".join(f"test {name} has been running for over 60 seconds\n" for name in ["a::b", "c::d"])
            (root / "log").write_text(slow + "test \x1b[1mc::d\x1b[0m ... \x1b[32mok\x1b[0m\n")
            running = subprocess.Popen([root / "deps/program", "-c", program], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
            watching = subprocess.Popen([HANGING, str(os.getpid()), "2", root / "log"], stdout=subprocess.PIPE, text=True)
            said, _ = running.communicate(timeout=60)
            watching.kill()
            return watching.communicate()[0], said

    def test_what_a_test_waits_for_is_killed_first(self):
        found, said = self.run_with("sleep 1000; echo it ended")
        self.assertEqual(said, "it ended\n")
        self.assertTrue(found.startswith("\n== no test has ended for 2 s, of:\n   a::b\n== kills:\n   sleep 1000\n"), found)

    def test_a_program_that_hangs_by_itself_is_killed_then(self):
        found, said = self.run_with("while sleep 1000; do :; done; while :; do :; done")
        self.assertEqual(said, "")
        self.assertGreaterEqual(found.count("== kills:"), 2)


if __name__ == "__main__":
    unittest.main()
