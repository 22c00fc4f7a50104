"""The accounts, and the namespaces of those that need them."""

import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

from harness import accounting, network
from harness.network import ACCOUNTS
from harness.server import CLIENT_CORE, SERVER_CORE, pin

MACHINE, SUM, THREADS = ACCOUNTS["machine"], ACCOUNTS["sum"], ACCOUNTS["threads"]
LIMIT_S = 20
BYTES = 32 << 20
# Sends to one client, then prints its congestion control and the client's address.
SENDER = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    listener.settimeout({LIMIT_S})
    connection, client = listener.accept()
    connection.sendall(bytes({BYTES}))
    name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(bytes(1))[0].decode()
    print(name, client[0], flush=True)
    connection.recv(1)
"""


def namespaces():
    directory = Path("/run/netns")
    return {name for name in os.listdir(directory) if str(os.getpid()) in name} if directory.is_dir() else set()


class Inabilities(unittest.TestCase):
    def test_loopback_needs_no_rights_and_has_the_congestion_control_of_the_system(self):
        self.assertIsNone(network.inability(THREADS, None))
        self.assertIsNone(network.inability(THREADS, network.congestion_control()))
        self.assertIn("--account machine or sum", network.inability(THREADS, "another"))

    def test_an_unknown_congestion_control_is_named_with_those_there_are(self):
        if os.geteuid() != 0:
            self.skipTest("namespaces need root")
        self.assertIn(network.congestion_control(), network.inability(MACHINE, "another"))


class Namespaces(unittest.TestCase):
    def setUp(self):
        if not {SERVER_CORE, CLIENT_CORE} <= os.sched_getaffinity(0):
            self.skipTest(f"cores {SERVER_CORE} and {CLIENT_CORE} are needed")
        for account in (MACHINE, SUM):
            if why := network.inability(account, None):
                self.skipTest(why)

    def sent(self, account, congestion):
        """The server's words and its cost, for some MiB to a client."""
        with network.joined(account, congestion):
            self.assertEqual(len(namespaces()), 2)
            server = subprocess.Popen(
                [sys.executable, "-c", SENDER], preexec_fn=pin(SERVER_CORE), stdout=subprocess.PIPE, text=True
            )
            with server:
                port = int(server.stdout.readline())
                os.sched_setaffinity(0, {CLIENT_CORE})
                meter = accounting.Meter([server.pid], SERVER_CORE, network.account().cores)
                with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
                    left = BYTES
                    while left:
                        received = len(client.recv(1 << 20))
                        self.assertGreater(received, 0, "the server ended early")
                        left -= received
                    said = server.stdout.readline().split()
                    usage = meter.stop()
        return said, usage

    def test_server_and_client_have_a_network_each_and_the_congestion_control_asked_for(self):
        allowed, cores = network.ALLOWED.read_text(), os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        for account in (MACHINE, SUM):
            for congestion in ("reno", "cubic"):
                if congestion not in (network.IPV4 / "tcp_available_congestion_control").read_text().split():
                    continue
                said, usage = self.sent(account, congestion)
                self.assertEqual(said, [congestion, "192.0.2.2"])
                self.assertGreater(usage.server_threads_s, 0)
                # Nothing that a core does is left out; its idle time is known to 10 ms, and a host may count the time that it takes
                # from an idle core as both.
                unknown = 0.03 + 2 * usage.steal_s
                self.assertGreater(usage.cpu_s, usage.server_threads_s - unknown * len(account.cores))
                self.assertEqual(usage.foreign_share, 0)
        self.assertEqual(namespaces(), set())
        self.assertEqual(network.ALLOWED.read_text(), allowed)
        self.assertEqual(network.account(), THREADS)

    def test_a_run_that_fails_leaves_no_namespace(self):
        with self.assertRaises(KeyError):
            with network.joined(SUM):
                raise KeyError
        self.assertEqual(namespaces(), set())
        self.assertFalse(network.is_joined())


if __name__ == "__main__":
    unittest.main()
