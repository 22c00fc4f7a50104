//! The raw form of private keys that are elsewhere, and of the keyserver.

use serde_saphyr::Spanned;

use super::Admin;
use crate::section::{Sections, Text, Texts, section};

section! {
    /// A private key that is elsewhere; see [keyserver.md](keyserver.md).
    PrivateKey {
        /// Keyservers that have the key: host and port. One is asked, and another if it fails.
        keyserver: Texts, "list of `host:port`", "this or `pkcs11` is required";
        /// A key in a hardware module: a URI (RFC 7512) with the token, the key, the module and a file with the PIN.
        pkcs11: Text, "URI", "this or `keyserver` is required";
        /// PEM file: the only authorities that may sign the certificates of these keyservers.
        ca: Text, "file", "required with `keyserver`";
        /// PEM file: the certificate that is shown to them.
        chain: Text, "file", "required with `keyserver`";
        /// PEM file: the private key of that certificate.
        key: Text, "file", "required with `keyserver`";
        /// Time for a signature, the retry included; then the handshake fails, or `fallback` signs.
        deadline: Text, "time", "2s";
    }
}

section! {
    /// The file of `penstock keyserver`.
    Keyserver {
        /// IP address and port; IPv6 in brackets.
        address: Text, "IP:port", "required";
        /// PEM file: the certificate shown to clients, then its intermediates.
        chain: Text, "file", "required";
        /// PEM file: the private key of that certificate.
        key: Text, "file", "required";
        /// PEM file: the root authorities that sign clients' certificates. No other authority is trusted.
        ca: Text, "file", "required";
        /// PEM file: lists of revoked certificates (CRLs), one of each authority. Read again by SIGHUP: with other lists or authorities every client has to connect again.
        crl: Text, "file", "nothing is revoked";
        /// Where the private keys are that clients sign with.
        keys: Sections<KeySource>, "list", "required";
        /// The clients, by the name in their certificates. Others are refused.
        clients: Sections<KeyserverClient>, "list", "required";
        /// Threads that sign; `auto` is one for each core this process may use.
        threads: Text, "number or `auto`", "auto";
        /// Sign digests of MD5 and SHA-1, which clients of TLS 1.0 and 1.1 need.
        legacy_hashes: Text, "`true`, `false`", "false";
        /// The admin listener: `/healthz`, `/status.json` and `/metrics` over plain HTTP.
        admin: Spanned<Admin>, "section", "off";
        /// The log of operations.
        log: Spanned<KeyserverLog>, "section", "";
        /// How long operations under way may take after a signal to stop.
        drain_deadline: Text, "time", "10s";
    }
}

section! {
    /// Private keys.
    KeySource {
        /// A directory with PEM files `*.key` or `*.pem`, each with one private key. The name of a file without its end is the name of the key. The directory is followed.
        directory: Text, "directory", "this or `pkcs11` is required";
        /// A key in a hardware module: a URI (RFC 7512) with the token, the key, the module and a file with the PIN. The name of the key is its `object`, otherwise its `id` in hexadecimal digits.
        pkcs11: Text, "URI", "this or `directory` is required";
    }
}

section! {
    /// A client of the keyserver.
    KeyserverClient {
        /// The name in its certificate: the common name, otherwise the first alternative name.
        name: Text, "name", "required";
        /// The keys it may sign with: names of keys, identifiers (40 hexadecimal digits), or `"*"` for all.
        keys: Texts, "list", "required";
        /// Operations that it may have under way on all its connections; then error 8.
        operations: Text, "number", "256";
        /// Operations per second, on average over one second; then error 8. 0 is no limit.
        rate: Text, "number", "0";
        /// Connections that it may have.
        connections: Text, "number", "64";
    }
}

section! {
    /// Logs of the keyserver other than the program's own.
    KeyserverLog {
        /// One JSON line for each operation. SIGUSR1 opens the file again.
        access: Text, "file", "no file";
    }
}
