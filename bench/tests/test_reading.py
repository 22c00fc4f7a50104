"""Parsing of output of other programs and of the kernel."""

import os
import subprocess
import sys
import time
import unittest
from contextlib import contextmanager, suppress
from pathlib import Path

from harness import accounting, steps
from harness.check import parse_negotiated
from harness.machine import kernel_version, slug
from harness.samples import parse_stacks, parse_syscalls, part_of, tally

S_CLIENT = """\
Peer signature type: ECDSA
Server Temp Key: X25519, 253 bits
New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256
"""

PERF = """\
\tffffffff81a01234 _copy_from_iter+0x94 ([kernel.kallsyms])
\tffffffff81a05678 tcp_sendmsg+0x20 ([kernel.kallsyms])
\tffffffff81009999 __x64_sys_sendto+0x1f ([kernel.kallsyms])
\t    7f0000001234 send+0x10 (/usr/lib/libc.so.6)

\t    7f0000005678 aes_gcm_enc_update_vaes_avx512+0x3a0 (/usr/bin/penstock)

\tffffffff81c00000 asm_exc_page_fault+0x20 ([kernel.kallsyms])
\t    7f0000005678 aes_gcm_enc_update_vaes_avx512+0x3a0 (/usr/bin/penstock)
"""

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 62.10    0.812345           4    203456           write
 20.00    0.112345           2      4000      2000 read
------ ----------- ----------- --------- --------- ------------------
100.00    1.000000                207456      2000 total
"""


NM = """\
0000000000001000 T main
0000000000001040 t edge::respond::Exchange::look_up::{{closure}}::h0123456789abcdef
0000000000001080 t edge::respond::Exchange::look_up::{{closure}}::hfedcba9876543210
0000000000001020 d a_variable
"""


class Parsing(unittest.TestCase):
    def test_the_negotiated_parameters_are_found(self):
        expected = {
            "cipher": "TLS_AES_128_GCM_SHA256", "version": "TLSv1.3", "group": "X25519", "signature": "ECDSA",
        }  # fmt: skip
        self.assertEqual(parse_negotiated(S_CLIENT), expected)

    def test_a_failed_handshake_has_no_parameters(self):
        self.assertEqual(set(parse_negotiated("connect: refused").values()), {None})

    def test_stacks_are_split_at_blank_lines(self):
        stacks = parse_stacks(PERF)
        self.assertEqual([len(frames) for frames in stacks], [4, 1, 2])
        self.assertEqual(stacks[0][0], ("_copy_from_iter", "[kernel.kallsyms]"))

    def test_a_sample_belongs_to_its_system_call_its_fault_or_its_program(self):
        parts = [part_of(frames) for frames in parse_stacks(PERF)]
        self.assertEqual(parts, ["kernel: sendto", "user: penstock", "kernel: page fault"])

    def test_every_sample_is_counted_once(self):
        parts, symbols = tally(parse_stacks(PERF))
        self.assertEqual((sum(parts.values()), sum(symbols.values())), (3, 3))

    def test_system_calls_and_their_errors_are_read(self):
        self.assertEqual(parse_syscalls(STRACE), {"write": (203456, 0), "read": (4000, 2000)})


    def test_instructions_are_added_up_by_function_whatever_copy_they_came_from(self):
        expected = {"main": 3, "edge::respond::Exchange::look_up::{{closure}}": 7, steps.LIBRARIES: 1}
        counts = {0x1000: 1, 0x103F: 2, 0x1040: 3, 0x1099: 4, 0xFFF: 1}
        self.assertEqual(steps.by_function(counts, steps.symbols_of(NM)), expected)

    def test_instructions_are_added_up_by_the_innermost_file_of_the_project(self):
        admit, route = "crates/content/src/pipeline/admit.rs", "crates/content/src/site/route_matchers/tree.rs"
        said = [
            "0x0000000000001000", "/rust/library/core/src/slice.rs:7", f"/src/{admit}:9 (discriminator 2)", "/src/crates/edge/src/http1.rs:1",
            "0x0000000000001004", f"/src/{admit}:10",
            "0x0000000000002000", f"{route}:3",
            "0x0000000000003000", "??:0", "??:?",
        ]  # fmt: skip
        counts = steps.by_file({0x1000: 1, 0x1004: 2, 0x2000: 4, 0x3000: 8}, "\n".join(said))
        self.assertEqual(counts, {admit: 3, route: 4, steps.UNKNOWN: 8})
        self.assertTrue(steps.RULES.match(admit) and steps.RULES.match(route))
        self.assertFalse(steps.RULES.match("crates/edge/src/http1.rs"))

    def test_the_steps_of_a_process_are_those_of_its_work(self):
        with _summing() as child:
            _ask(child, 1)
            few, many = (sum(steps.count(child.pid, lambda n=n: _ask(child, n)).values()) for n in (10, 1010))
        self.assertGreater(few, 100)
        self.assertGreater(many - few, 1000)

    def test_a_process_that_waits_in_a_system_call_at_the_end_of_its_work_goes_on(self):
        def until_it_waits():
            _ask(child, 10)
            stat = Path(f"/proc/{child.pid}/stat")
            for _ in range(6000):
                if stat.read_text().rpartition(")")[2].split()[0] == "S":
                    return
                time.sleep(0.01)
            raise TimeoutError("the process does not wait for its next line")

        with _summing() as child:
            self.assertGreater(sum(steps.count(child.pid, until_it_waits).values()), 100)
            _ask(child, 1)
        self.assertEqual(child.returncode, 0)


@contextmanager
def _summing():
    """A process that answers each number with the sum of those below it."""
    code = "import sys\nfor line in sys.stdin: print(sum(range(int(line))), flush=True)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        with suppress(BrokenPipeError):
            child.stdin.close()
        child.wait(10)
        child.stdout.close()


def _ask(child, number):
    child.stdin.write(f"{number}\n")
    child.stdin.flush()
    if (said := child.stdout.readline()) != f"{sum(range(number))}\n":
        raise AssertionError(f"the sum below {number} is {said!r}")


class Machine(unittest.TestCase):
    def test_a_processor_becomes_a_name(self):
        self.assertEqual(slug("Intel(R) Xeon(R) CPU E5-2660 v4 @ 2.00GHz", 28), "intel-xeon-e5-2660-v4-28c")
        self.assertEqual(slug("AMD EPYC", 2), "amd-epyc-2c")

    def test_a_kernel_keeps_its_version_and_loses_its_suffix(self):
        self.assertEqual(kernel_version("6.1.0-28-cloud-amd64"), "6.1.0")
        self.assertEqual(kernel_version("6.12.3-host7"), "6.12.3")


class Accounts(unittest.TestCase):
    def test_a_process_that_works_is_charged_and_one_that_sleeps_is_not(self):
        def charged(code):
            child = subprocess.Popen(
                [sys.executable, "-c", f"{code}; print('done', flush=True); input()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            with child:
                child.stdout.readline()
                threads = sum(accounting.thread_cpu_ns(child.pid).values())
                ns = accounting.process_cpu_ns(child.pid)  # afterwards, since the child may still be on its way to sleep
                child.communicate(b"\n")
            return ns, threads

        idle, _ = charged("pass")
        busy, threads = charged("sum(range(20_000_000))")
        self.assertGreater(busy, idle)
        self.assertGreater(threads, idle)
        self.assertLessEqual(threads, busy)

    def test_memory_counts_what_a_process_wrote(self):
        before = accounting.memory_kib(os.getpid())
        held = bytearray(os.urandom(1 << 16) * 512)
        after = accounting.memory_kib(os.getpid())
        self.assertGreaterEqual(after - before, len(held) // 1024 * 9 // 10)


if __name__ == "__main__":
    unittest.main()
