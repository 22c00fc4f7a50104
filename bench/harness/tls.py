"""What a figure has both servers and its clients agree on: version, certificate, group. Nothing else is offered."""

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
GROUP = "X25519"


@dataclass(frozen=True)
class Tls:
    """One version and one kind of certificate key, with one suite; X25519 is the only group."""

    version: str = "1.3"
    key: str = "ec"

    @property
    def name(self):
        """For file names."""
        return f"tls{self.version}-{self.key}"

    @property
    def suite(self):
        return SUITES[self.version, self.key]

    @property
    def signature(self):
        """In the words of `openssl s_client`."""
        return SIGNATURES[self.version, self.key]

    def openssl_conf(self):
        """Settings of the clients that are linked with OpenSSL; read through `OPENSSL_CONF`."""
        suites = "Ciphersuites" if self.version == "1.3" else "CipherString"
        # Before TLS 1.3 the certificate's curve has to be among the groups; the servers still only know X25519.
        groups = f"{GROUP}:P-256" if (self.version, self.key) == ("1.2", "ec") else GROUP
        return "\n".join([
            "openssl_conf = init", "[init]", "ssl_conf = ssl", "[ssl]", "system_default = client", "[client]",
            f"MinProtocol = TLSv{self.version}", f"MaxProtocol = TLSv{self.version}",
            f"{suites} = {self.suite}", f"Groups = {groups}", "",
        ])  # fmt: skip

    def nginx(self):
        """The directives for nginx."""
        suites = f"ssl_conf_command Ciphersuites {self.suite}" if self.version == "1.3" else f"ssl_ciphers {self.suite}"
        return [f"ssl_protocols TLSv{self.version};", f"{suites};", f"ssl_ecdh_curve {GROUP};"]


DEFAULT = Tls()
