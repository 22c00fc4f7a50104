"""The output of bench/guest/measure is parsed, and invalid runs are refused."""

import unittest

from harness import instructions
from harness.fixtures import GIB

SAID = """\
-- guest: Linux 6.1.0-56-cloud-amd64
known plain 20000000 20013642
known aes 40000000 40026487
known string_bytes 16777216 16791145
machine kernel 6.1.0-56-cloud-amd64
machine driver_used generic-gcm-aesni
sent first off large.bin 1073741824 1 2 3 90 80 70
sent small off one.bin 1 100 200 300 1000100 201 302
sent small on one.bin 1 100 200 300 1100100 201 302
sent 1 off large.bin 1073741824 1000 10 100 3000001000 20 300
sent 1 on large.bin 1073741824 5000 10 100 2000005000 30 300
sent 1 nginx large.bin 1073741824 5000 10 100 4000005000 30 300
calls off 80
calls on 48
calls nginx 160
call off body mmap 1 0
call on body sendfile 34 16777216
counter on penstock_sent_bytes_total{outlet="kernel"} 67110072
counter on penstock_sent_bytes_total{outlet="plain"} 0
tls_stat TlsTxSw                     \t11
tls_stat TlsDecryptError             \t0
"""


class Reading(unittest.TestCase):
    def test_a_transfer_is_the_difference_of_two_snapshots(self):
        found = instructions.read(SAID)
        self.assertEqual(instructions.per_gib(found, "off"), [3e9])
        self.assertEqual(instructions.per_gib(found, "on"), [2e9])
        self.assertEqual(instructions.per_gib(found, "on", "kernel_threads_ns"), [20])
        self.assertEqual(found["tls_stat"]["TlsTxSw"], 11)

    def test_a_clock_that_does_not_count_instructions_is_refused(self):
        with self.assertRaisesRegex(ValueError, "does not count"):
            instructions.read(SAID.replace("20013642", "40000000"))

    def test_a_body_that_is_not_whole_is_refused(self):
        with self.assertRaisesRegex(ValueError, "whole"):
            instructions.read(SAID.replace("1 on large.bin 1073741824", "1 on large.bin 1073741823"))

    def test_a_kernel_kind_without_sendfile_is_refused(self):
        with self.assertRaisesRegex(ValueError, "sendfile"):
            instructions.read(SAID.replace("call on body sendfile", "call on body sendto"))


class Repetitions(unittest.TestCase):
    def test_two_granularities_tell_the_bytes_and_what_is_left(self):
        # 3e9 instructions and one copy of a GiB by `rep`.
        bare, touched = instructions.without_repetitions([3e9 + GIB / 8], [3e9 + GIB])
        self.assertAlmostEqual(touched[0], GIB, places=3)
        self.assertAlmostEqual(bare[0], 3e9, places=3)

    def test_the_page_names_every_server_and_its_ratios(self):
        found = instructions.read(SAID)
        versions = {"penstock": "penstock 0", "revision": "0" * 40, "uncommitted_changes": False, "qemu": "QEMU", "curl": "curl"}
        raw = {"mib": 1024, "versions": versions, "processors": {"8-byte copies": found, "byte copies": found}}
        page = instructions.summary(raw, {"on": "kernel: on"})
        row = next(line for line in page.splitlines() if line.startswith("| kernel | 2.00"))
        self.assertIn("| 0.667 (0.667..0.667) | 0.500 (0.500..0.500) |", row)
        self.assertTrue(row.endswith("| 3.0 |"), row)
        self.assertIn("| kernel | `sendfile` | yes | 34 | 16,777,216 |", page)
        self.assertNotIn('outlet="plain"', page)


if __name__ == "__main__":
    unittest.main()
