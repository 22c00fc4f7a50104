"""The TLS parameters of a figure: version, suite, certificate, group."""

from dataclasses import dataclass

SUITES = {
    ("1.3", "ec"): "TLS_AES_128_GCM_SHA256",
    ("1.3", "rsa"): "TLS_AES_128_GCM_SHA256",
    ("1.2", "ec"): "ECDHE-ECDSA-AES128-GCM-SHA256",
    ("1.2", "rsa"): "ECDHE-RSA-AES128-GCM-SHA256",
}
SIGNATURES = {("1.3", "ec"): "ECDSA", ("1.2", "ec"): "ECDSA", ("1.3", "rsa"): "RSA-PSS", ("1.2", "rsa"): "RSA"}
KEYS = {
    "ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    "rsa": ["-newkey", "rsa:2048"],
}
GO_SUITES = {
    "ec": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "rsa": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
}
H2O_SUITES = (2, 3)  # the version that names suites of TLS 1.3, and the last version of the protocol
GROUP = "X25519"
BROWSER_GROUPS = "X25519MLKEM768:X25519:P-256"


@dataclass(frozen=True)
class Tls:
    """One version and one kind of certificate key, with one suite, and one group unless the servers choose."""

    version: str = "1.3"
    key: str = "ec"
    is_group_pinned: bool = True
    has_tickets: bool = True

    @property
    def name(self):
        """For file names."""
        return f"tls{self.version}-{self.key}" + ("" if self.is_group_pinned else "-groups") + (
            "" if self.has_tickets else "-no-tickets"
        )

    @property
    def suite(self):
        return SUITES[self.version, self.key]

    @property
    def signature(self):
        """In the words of `openssl s_client`."""
        return SIGNATURES[self.version, self.key]

    @property
    def client_groups(self):
        """What clients offer, best first."""
        if not self.is_group_pinned:
            return BROWSER_GROUPS
        # Before TLS 1.3 the certificate's curve has to be among the groups; the servers still only know X25519.
        return f"{GROUP}:P-256" if (self.version, self.key) == ("1.2", "ec") else GROUP

    @property
    def openssl_groups(self):
        """The same in the words of Debian's OpenSSL, which has no ML-KEM."""
        return self.client_groups.removeprefix("X25519MLKEM768:")

    def openssl_conf(self):
        """Settings of the programs that are linked with OpenSSL, clients and servers; read through `OPENSSL_CONF`."""
        suites = "Ciphersuites" if self.version == "1.3" else "CipherString"
        groups = self.openssl_groups
        return "\n".join([
            "openssl_conf = init", "[init]", "ssl_conf = ssl", "[ssl]", "system_default = client", "[client]",
            f"MinProtocol = TLSv{self.version}", f"MaxProtocol = TLSv{self.version}",
            f"{suites} = {self.suite}", f"Groups = {groups}",
            *([] if self.has_tickets else ["Options = -SessionTicket"]), "",
        ])  # fmt: skip

    def nginx(self, build):
        """The directives for nginx. Without OpenSSL it cannot name the suite of TLS 1.3 and takes the only one that clients offer."""
        suites = [f"ssl_ciphers {self.suite};"] if self.version == "1.2" else []
        suites += [f"ssl_conf_command Ciphersuites {self.suite};"] if self.version == "1.3" and build.has_openssl else []
        group = [f"ssl_ecdh_curve {GROUP};"] if self.is_group_pinned else []
        return [f"ssl_protocols TLSv{self.version};", *suites, *group]

    def h2o(self, build):
        """The lines of h2o below `ssl:`. An old one can name the suite of TLS 1.3 only by OpenSSL's own configuration."""
        suites = [f"cipher-suite: {self.suite}"] if self.version == "1.2" else []
        suites += [f"cipher-suite-tls1.3: [{self.suite}]"] if self.version == "1.3" and build.number >= H2O_SUITES else []
        bounds = [f"minimum-version: TLSv{self.version}", f"maximum-version: TLSv{self.version}"]
        return [*(bounds if build.number >= H2O_SUITES else bounds[:1]), *suites]

    def penstock(self):
        """The keys below `tls:` for Penstock."""
        return [f"groups: [{GROUP}]"] if self.is_group_pinned else []

    def caddy(self):
        """The lines inside Caddy's `tls`."""
        suite = [] if self.version == "1.3" else [f"ciphers {GO_SUITES[self.key]}"]
        curves = ["curves x25519"] if self.is_group_pinned else []
        return [f"protocols tls{self.version} tls{self.version}", *suite, *curves]


DEFAULT = Tls()
