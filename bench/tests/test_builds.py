"""Peers by the path of their program: versions, TLS libraries, names, and what a stored run tells of them."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import builds, report
from harness.figures import Figure
from harness.record import Found, anonymous
from harness.servers import PEERS, Nginx
from harness.session import Run

from .test_report import MACHINE

SAID = {
    "nginx": (
        "nginx version: nginx/1.31.5\nbuilt by gcc 12.2.0 (Debian 12.2.0-14)\n"
        "built with OpenSSL 1.1.1 (compatible; BoringSSL) (running with BoringSSL)\nTLS SNI support enabled",
        "1.31.5 with BoringSSL (in the program), by --peer",
    ),
    "h2o": ("h2o version 2.3.0-DEV@edd7a120b\nOpenSSL: BoringSSL\nmruby: NO", "2.3.0-DEV@edd7a120b with BoringSSL (in the program), by --peer"),
    "haproxy": (
        "HAProxy version 3.2.1-abc 2026/01/01 - https://haproxy.org/\nBuilt with SSL library version : AWS-LC 1.50\n"
        "Running on SSL library version : AWS-LC 1.51", "3.2.1-abc with AWS-LC 1.51 (in the program), by --peer",
    ),
    "caddy": ("v2.10.0 h1:fonubSaQKF1YANl8TXqGcn4IbIRUDdfAkpcsfI/vX5U=\ngo\tgo1.24.3", "v2.10.0 with crypto/tls of go1.24.3 (in the program), by --peer"),
}  # fmt: skip


class Builds(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = Path(home.name).resolve()

    def program(self, said, name="peer"):
        """A program that says this whatever it is asked."""
        path = self.home / name
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        path.chmod(0o755)
        return path

    def test_each_peer_says_its_version_and_its_library_itself(self):
        for kind, (said, words) in SAID.items():
            made = builds.by_path([f"{kind}={self.program(said, kind)}"], PEERS)
            self.assertEqual(str(made[kind].build()), words)
            self.assertTrue(issubclass(made[kind], PEERS[kind]))
            self.assertEqual(made[kind].missing(), [])

    def test_the_library_of_a_distribution_is_the_one_it_runs_with_and_has_its_file_named(self):
        said = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)"
        linked = "\tlibssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007fdc5c1e7000)\n"
        with mock.patch.object(builds, "_said", lambda program, *_: linked if program == "ldd" else said):
            build = builds.read.__wrapped__("nginx", "nginx")
        self.assertEqual(str(build), "1.22.1 with OpenSSL 3.0.19 27 Jan 2026 (libssl.so.3)")
        self.assertTrue(build.has_openssl)

    def test_a_wrong_peer_is_refused_in_words(self):
        nginx = self.program(SAID["nginx"][0])
        wrong = {
            "apache=/bin/true": "no such peer: apache=/bin/true",
            f"varnish={nginx}": "no such peer",
            f"nginx-={nginx}": "no such peer",
            f"nginx-A/b={nginx}": "no such peer",
            "nginx": "nothing is no path",
            "nginx=": "nothing is no path",
            "nginx=nginx": "nginx is no path",
            f"nginx={self.home}/absent": "absent is no path of a program that can be executed",
            f"h2o={nginx}": "does not say its version as h2o does",
            "haproxy=/bin/true": "does not say its version as haproxy does",
        }
        for given, words in wrong.items():
            with self.assertRaisesRegex(ValueError, words):
                builds.by_path([given], PEERS)
        with self.assertRaisesRegex(ValueError, "nginx is there twice"):
            builds.by_path([f"nginx={nginx}"] * 2, PEERS)

    def test_a_build_with_a_label_takes_part_beside_the_one_without(self):
        new = builds.by_path([f"nginx-new={self.program(SAID['nginx'][0])}"], PEERS)
        figure = Figure("d", "a handshake", "µs", 1, None, None, peers=("h2o", "nginx"))
        run = Run([figure], None, "full", 1, peers={**new, "nginx": type("Here", (Nginx,), {"needs": ()})})
        self.assertEqual([server.name for server in run.servers(figure)], ["penstock", "nginx", "nginx-new"])
        taken = {"penstock": [{"value": 1.0}], "nginx-new": [{"value": 2.0}], "nginx": [{"value": 4.0}]}
        self.assertEqual([row[1] for row in figure.rows(taken, "penstock", figure.peers)], ["nginx", "nginx-new"])
        # nginx against itself: ours is no peer of its own.
        taken = {"nginx-first": [{"value": 1.0}], "nginx": [{"value": 1.0}]}
        self.assertEqual([row[1] for row in figure.rows(taken, "nginx-first", figure.peers)], ["nginx"])

    def test_a_stored_run_has_the_builds_and_not_their_paths(self):
        program = self.program(SAID["nginx"][0], "nginx-of-mine")
        peer = builds.by_path([f"nginx={program}"], PEERS)["nginx"]
        machine = {**MACHINE, "versions": {"nginx": str(peer.build())}}
        self.assertIn("nginx 1.31.5 with BoringSSL (in the program), by --peer", report.summary([], Found({}, machine)))
        command = f"{program} -c /tmp/home/nginx-new-abcd_123/nginx.conf -p /tmp/home/h2o-12345678"
        said = anonymous(command, ["/tmp/home"], "/repository", [program])
        self.assertEqual(said, "nginx-of-mine -c $RUN/nginx-new/nginx.conf -p $RUN/h2o")


if __name__ == "__main__":
    unittest.main()
