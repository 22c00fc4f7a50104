//! Support for clients without TLS 1.2 or AEADs: old versions, old suites, signatures over SHA-1.
//!
//! RFC 8996 and RFC 9155 deprecate all of it. It is off unless the configuration names an old version.

use penstock_sys::cbc::{CbcCipher, CbcKeys, CbcVersion};
use penstock_sys::ssl;
use penstock_sys::traffic::ProtocolVersion;

use boring::ssl::{SslRef, SslSignatureAlgorithm, SslVersion};

use crate::suites::{Protection, Suite};

/// The oldest version spoken, where that is one from before TLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Legacy {
    /// TLS 1.0 (RFC 2246), and 1.1.
    Tls10,
    /// TLS 1.1 (RFC 4346).
    Tls11,
}

impl Legacy {
    pub(crate) fn library_version(self) -> SslVersion {
        match self {
            Self::Tls10 => SslVersion::TLS1,
            Self::Tls11 => SslVersion::TLS1_1,
        }
    }
}

/// Suites for old clients, best first: with forward secrecy, then those of devices that know no elliptic curves. All
/// versions up to TLS 1.2 have them.
pub static LEGACY_SUITES: [Suite; 6] = [
    ecdsa(0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA", CbcCipher::Aes128),
    rsa(0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA", CbcCipher::Aes128),
    ecdsa(0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA", CbcCipher::Aes256),
    rsa(0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA", CbcCipher::Aes256),
    rsa(0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", CbcCipher::Aes128),
    rsa(0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA", CbcCipher::Aes256),
];

const fn ecdsa(number: u16, name: &'static str, openssl_name: &'static str, cipher: CbcCipher) -> Suite {
    let protection = Protection::Cbc(cipher);
    Suite { number, name, openssl_name, version: ProtocolVersion::Tls12, protection, ecdsa: true, rsa: false }
}

const fn rsa(number: u16, name: &'static str, openssl_name: &'static str, cipher: CbcCipher) -> Suite {
    let protection = Protection::Cbc(cipher);
    Suite { number, name, openssl_name, version: ProtocolVersion::Tls12, protection, ecdsa: false, rsa: true }
}

impl Suite {
    /// Whether it is one of [`LEGACY_SUITES`].
    pub fn is_legacy(&self) -> bool {
        matches!(self.protection, Protection::Cbc(_))
    }
}

/// The signature schemes without old clients: RFC 9155 forbids SHA-1 in TLS 1.2.
pub(crate) const MODERN_SIGNATURES: [SslSignatureAlgorithm; 10] = [
    SslSignatureAlgorithm::ED25519,
    SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256,
    SslSignatureAlgorithm::RSA_PKCS1_SHA256,
    SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384,
    SslSignatureAlgorithm::RSA_PKCS1_SHA384,
    SslSignatureAlgorithm::ECDSA_SECP521R1_SHA512,
    SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512,
    SslSignatureAlgorithm::RSA_PKCS1_SHA512,
];

/// The keys of a connection with one of the legacy suites, behind `sequence` records.
pub(crate) fn keys_of(ssl: &SslRef, suite: &str, sequence: u64) -> Option<CbcKeys> {
    let cipher = match suite {
        name if name.ends_with("_AES_128_CBC_SHA") => CbcCipher::Aes128,
        name if name.ends_with("_AES_256_CBC_SHA") => CbcCipher::Aes256,
        _ => return None,
    };
    let (version, last_block) = match ssl.version2()? {
        SslVersion::TLS1 => (CbcVersion::Tls10, ssl::last_block_written(ssl)),
        SslVersion::TLS1_1 => (CbcVersion::Tls11, Vec::new()),
        SslVersion::TLS1_2 => (CbcVersion::Tls12, Vec::new()),
        _ => return None,
    };
    CbcKeys::new(version, cipher, &ssl::key_block(ssl)?, &last_block, sequence)
}
