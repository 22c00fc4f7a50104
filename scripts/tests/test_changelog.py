"""What packaging/changelog takes from a changelog, and what it finds wrong with a release."""
import importlib.machinery
import importlib.util
import os
import pathlib
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "packaging/changelog"

CHANGELOG = """# Changelog

## [Unreleased]
{unreleased}
## [1.2.0]{date}

- Faster `sites` ([limits](docs/limits.md)), in
  two lines.

## [1.1.0] - 2026-01-02

### TLS

- The older one.
"""


def load():
    loader = importlib.machinery.SourceFileLoader("changelog", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("changelog", loader))
    loader.exec_module(module)
    return module


class Changelog(unittest.TestCase):
    def setUp(self):
        self.changelog = load()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.changelog.ROOT = pathlib.Path(directory.name)
        (self.changelog.ROOT / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.0"\n')
        os.environ["SOURCE_DATE_EPOCH"] = "0"
        self.addCleanup(os.environ.pop, "SOURCE_DATE_EPOCH")

    def write(self, unreleased: str = "", date: str = " - 2026-02-03"):
        (self.changelog.ROOT / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=unreleased, date=date))

    def test_a_release_is_ready_if_tag_version_and_changelog_agree(self):
        self.write()
        self.assertEqual(self.changelog.faults("v1.2.0"), [])

    def test_each_disagreement_is_named(self):
        self.write()
        self.assertEqual(len(self.changelog.faults("v1.3.0")), 3)
        self.assertIn("write v1.2.3", self.changelog.faults("1.2.0")[0])
        self.write(date="")
        self.assertEqual(["CHANGELOG.md has no date for 1.2.0: write ## [1.2.0] - YYYY-MM-DD"], self.changelog.faults("v1.2.0"))
        self.write(unreleased="\n- Not yet.\n")
        self.assertEqual(["CHANGELOG.md has unreleased changes: move them to [1.2.0]"], self.changelog.faults("v1.2.0"))

    def test_the_package_has_what_is_not_released_yet_with_its_own_version(self):
        self.write(unreleased="\n- Not yet.\n")
        newest, older = self.changelog.debian("3").split("\n\npenstock ")
        self.assertTrue(newest.startswith("penstock (1.2.0-3) stable; urgency=medium\n\n  * Not yet.\n"), newest)
        self.assertIn("  * Faster sites (limits), in two lines.\n", newest)
        self.assertTrue(older.startswith("(1.1.0-1) stable; urgency=medium\n\n  * The older one.\n"), older)
        self.assertTrue(newest.endswith("  Thu, 01 Jan 1970 00:00:00 -0000"), newest)
