"""Tests of scripts/check-words and scripts/check-links: a bad line makes them fail, a good one does not."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def load(name):
    """A script without a suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


words = load("check-words")
links = load("check-links")


class Words(unittest.TestCase):
    def test_a_bad_line_makes_the_check_fail_with_its_place_and_advice(self):
        with tempfile.NamedTemporaryFile("w", suffix=".md", dir=SCRIPTS) as file:
            file.write("# Title\n\nIt waits for whoever asks.\n")
            file.flush()
            path = str(pathlib.Path(file.name).relative_to(SCRIPTS.parent))
            done = subprocess.run([SCRIPTS / "check-words", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{path}:3: 'whoever': name the subject", done.stderr)
        self.assertRegex(done.stderr, r"\n +1  scripts\n")

    def test_a_good_line_passes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".md", dir=SCRIPTS) as file:
            file.write("The worker waits for the client.\n")
            file.flush()
            done = subprocess.run([SCRIPTS / "check-words", file.name], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_refused_word_is_found(self):
        cases = [
            ("a.md", "Nobody reads it."), ("a.rs", "fn nobody_reads_it() {}"), ("a.py", "# as we do"),
            ("a.md", "how it was come by"), ("a.rs", "/// There is no room for it."), ("a.md", "It begins anew."),
            ("a.rs", 'Self::X => "passed",'),
            ("docs/a.md", "| `through` | a method |"), ("docs/a.md", "`http://10.0.0.5:8080`"),
            ("crates/config/src/a.rs", '"write 192.168.1.1:443"'),
        ]
        for path, line in cases:
            with self.subTest(line):
                self.assertEqual(len(words.faults_in(path, line, words.RULES)), 1)

    def test_other_uses_of_the_same_letters_pass(self):
        cases = [
            ("a.rs", 'outcome: "no_room",'), ("a.md", "user nobody;"),
            ("a.rs", "let x = y.floor();"), ("a.rs", "// RFC 9110 section 10.1.1 and 10.1.1.2.3"),
            ("docs/a.md", "`http://192.0.2.5:8080`"), ("a.rs", 'ip("10.0.0.2")'), ("a.md", "a wheel, an owl, were"),
        ]
        for path, line in cases:
            with self.subTest(line):
                self.assertEqual(words.faults_in(path, line, words.RULES), [])


class Links(unittest.TestCase):
    def test_anchors_are_those_of_github(self):
        text = "# A `tls.x`, each\n```\n# no heading\n```\n## What's new?\n## What's new?\n"
        self.assertEqual(links.anchors_of(text), {"a-tlsx-each", "whats-new", "whats-new-1"})

    def test_a_missing_file_and_a_missing_heading_are_faults(self):
        with tempfile.TemporaryDirectory(dir=SCRIPTS) as directory:
            document = pathlib.Path(directory) / "a.md"
            document.write_text("# Here\n[1](#here) [2](#there) [3](b.md) `[4](c.md)` [5](https://example.com/x.md)\n")
            faults = links.markdown_faults(document)
        self.assertEqual([fault.split(": ", 1)[1] for fault in faults], ["no such heading: #there", "no such file: b.md"])


if __name__ == "__main__":
    unittest.main()
