"""The parameters that clients and servers are configured with."""

import unittest

from harness.builds import Build
from harness.tls import Tls


class Agreements(unittest.TestCase):
    def test_one_version_suite_and_group_are_left_to_both_sides(self):
        tls = Tls("1.2", "rsa")
        self.assertIn("CipherString = ECDHE-RSA-AES128-GCM-SHA256\nGroups = X25519\n", tls.openssl_conf())
        self.assertIn("MinProtocol = TLSv1.2\nMaxProtocol = TLSv1.2\n", tls.openssl_conf())
        self.assertEqual(tls.nginx(Build())[1:], ["ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;", "ssl_ecdh_curve X25519;"])
        self.assertEqual(tls.penstock(), ["groups: [X25519]"])

    def test_before_tls_13_a_client_has_to_know_the_curve_of_the_certificate(self):
        self.assertEqual(Tls("1.2", "ec").client_groups, "X25519:P-256")
        self.assertEqual(Tls("1.3", "ec").client_groups, "X25519")

    def test_each_build_is_told_the_suite_in_the_words_that_it_knows(self):
        suite = Tls().suite
        openssl, boring = Build(tls="OpenSSL 3.0.19 27 Jan 2026"), Build(tls="OpenSSL 1.1.1 (compatible; BoringSSL)")
        self.assertIn(f"ssl_conf_command Ciphersuites {suite};", Tls().nginx(openssl))
        for one in (boring, Build(tls="BoringSSL"), Build(tls="AWS-LC 1.2")):
            self.assertEqual(Tls().nginx(one), ["ssl_protocols TLSv1.3;", "ssl_ecdh_curve X25519;"])
        self.assertEqual(Tls().h2o(Build("2.2.5")), ["minimum-version: TLSv1.3"])
        self.assertIn(f"cipher-suite-tls1.3: [{suite}]", Tls().h2o(Build("2.3.0-DEV@edd7a120b")))
        self.assertIn("cipher-suite: ECDHE-RSA-AES128-GCM-SHA256", Tls("1.2", "rsa").h2o(Build("2.3.0")))

    def test_servers_may_have_their_way_with_the_group(self):
        tls = Tls(is_group_pinned=False)
        self.assertEqual(tls.penstock(), [])
        self.assertEqual(tls.client_groups, "X25519MLKEM768:X25519:P-256")
        self.assertNotIn("MLKEM", tls.openssl_conf())

    def test_each_agreement_has_its_own_file(self):
        all_of_them = [Tls(v, k, g) for v in ("1.2", "1.3") for k in ("ec", "rsa") for g in (True, False)]
        self.assertEqual(len({tls.name for tls in all_of_them}), len(all_of_them))
