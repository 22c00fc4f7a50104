//! Certificates that are signed by their own key: for clients until the first order has ended, and for the authority
//! (RFC 8737).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_tls::certificate::{Certificate, CertificateError};
use rcgen::{
    CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For how long such a certificate is valid: longer than any outage of an authority, shorter than any client's limit.
const VALID_DAYS: u32 = 90;

/// A certificate in memory for a name that has no other one yet.
///
/// # Errors
/// Why it cannot be made.
pub fn placeholder(name: &str, now: SystemTime) -> Result<Arc<Certificate>, String> {
    let (chain, key) = CertificateParams::new(vec![name.to_owned()])
        .and_then(|params| self_signed(params, "Penstock, self-signed", now))
        .map_err(|error| error.to_string())?;
    Certificate::from_pem(chain.as_bytes(), key.as_bytes())
        .map(Arc::new)
        .map_err(|error: CertificateError| error.to_string())
}

/// The certificate that answers a challenge of the kind tls-alpn-01, in PEM, with its key. `digest` is that of the key
/// authorization.
pub(crate) fn challenge(name: &str, digest: &[u8], now: SystemTime) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let (chain, key) = self_signed(params, "Penstock, self-signed", now)?;
    Ok(format!("{chain}{key}"))
}

/// An ECDSA P-256 certificate with these parameters, for servers, and its key, both in PEM. `name` is its common name.
///
/// # Errors
/// Why it cannot be made.
pub fn self_signed(
    mut params: CertificateParams,
    name: &str,
    now: SystemTime,
) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // A day back, for clients whose clock is behind.
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * VALID_DAYS).into();
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_for_its_name_alone() {
        let made = placeholder("a.example", SystemTime::now()).unwrap();
        assert_eq!(made.names(), ["a.example"]);
        let wildcard = placeholder("*.a.example", SystemTime::now()).unwrap();
        assert_eq!(wildcard.names(), ["*.a.example"]);
    }
}
