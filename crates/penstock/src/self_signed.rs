//! Self-signed certificates: for one run, and for a first configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

use penstock_acme::self_signed;
use penstock_tls::certificate::{Certificate, CertificateError};
use rcgen::{CertificateParams, SanType};

/// Why there is no certificate.
#[derive(Debug)]
pub(crate) enum SelfSignedError {
    Make(rcgen::Error),
    Use(CertificateError),
}

impl std::fmt::Display for SelfSignedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Make(error) => error.fmt(f),
            Self::Use(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SelfSignedError {}

/// An ECDSA P-256 certificate for `localhost`, loopback and `addresses`. It exists only in memory.
pub(crate) fn certificate(addresses: &[SocketAddr], now: SystemTime) -> Result<Certificate, SelfSignedError> {
    let (chain, key) = make(addresses, now).map_err(SelfSignedError::Make)?;
    Certificate::from_pem(chain.as_bytes(), key.as_bytes()).map_err(SelfSignedError::Use)
}

/// An ECDSA P-256 certificate for `domain`, and its key, both in PEM.
pub(crate) fn files(domain: &str, now: SystemTime) -> Result<(String, String), SelfSignedError> {
    let params = CertificateParams::new(vec![domain.to_owned()]).map_err(SelfSignedError::Make)?;
    self_signed(params, "Penstock, self-signed", now).map_err(SelfSignedError::Make)
}

fn make(listen: &[SocketAddr], now: SystemTime) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let others = listen.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
    addresses.extend(others);
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    self_signed(params, "Penstock, self-signed for one run", now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn it_names_the_machine_and_ends_after_ninety_days() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let made = certificate(&["192.0.2.7:443".parse().unwrap()], now).unwrap();
        assert_eq!(made.names(), ["localhost"]);
        assert_eq!(made.not_after(), Some(now + DAY * 90));
        assert_eq!(made.kind().label(), "ecdsa");
    }

    #[test]
    fn two_runs_have_two_keys() {
        let now = SystemTime::now();
        let (one, two) = (make(&[], now), make(&[], now));
        assert_ne!(one.unwrap().1, two.unwrap().1);
    }
}
