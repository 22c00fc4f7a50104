//! Frequent mistakes with chain and key files: swapped files, and certificates in the wrong order.

use penstock_tls::certificate::{Certificate, CertificateError};

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
const CERTIFICATE_END: &str = "-----END CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// The mistake behind an error of [`Certificate::from_pem`], if it is one of the frequent ones.
pub(super) enum Mistake {
    /// The chain's file has the key, and the key's file the chain.
    Swapped,
    /// The certificate of the key is not the first of the chain; its place, counted from 1.
    LeafAt(usize),
}

/// Finds the mistake in files that cannot be used together.
pub(super) fn mistake(error: &CertificateError, chain: &[u8], key: &[u8]) -> Option<Mistake> {
    let (chain, key) = (String::from_utf8_lossy(chain), String::from_utf8_lossy(key));
    match error {
        CertificateError::KeyMismatch => {
            let is_leaf = |block: &&str| Certificate::from_pem(block.as_bytes(), key.as_bytes()).is_ok();
            let place = blocks(&chain).iter().position(is_leaf)?;
            Some(Mistake::LeafAt(place + 1))
        }
        _ => {
            let is_swapped = !chain.contains(CERTIFICATE) && chain.contains(KEY) && !key.contains(KEY);
            (is_swapped && key.contains(CERTIFICATE)).then_some(Mistake::Swapped)
        }
    }
}

/// The certificates of a PEM file.
fn blocks(pem: &str) -> Vec<&str> {
    pem.split_inclusive(CERTIFICATE_END).filter_map(|part| Some(&part[part.find(CERTIFICATE)?..])).collect()
}
