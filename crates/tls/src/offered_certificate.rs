//! Certificates that clients can be shown, in memory or loaded on demand.

use std::fmt;
use std::sync::Arc;

use crate::certificate::{Certificate, CertificateError, Summary};

/// A certificate that clients can be shown.
#[derive(Clone, Debug)]
pub struct OfferedCertificate {
    /// Names and kind of key.
    pub summary: Arc<Summary>,
    /// Which clients get it beside those that ask for one of its names.
    pub default: DefaultFor,
    /// Its source.
    pub source: CertificateSource,
}

impl OfferedCertificate {
    /// A certificate that is in memory.
    #[must_use]
    pub fn loaded(certificate: &Arc<Certificate>, default: DefaultFor) -> Self {
        let source = CertificateSource::Loaded(Arc::clone(certificate));
        Self { summary: Arc::clone(certificate.summary()), default, source }
    }
}

/// Which clients get a certificate beside those that ask for one of its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultFor {
    /// No other clients, unless no certificate is marked: then the first of each kind of key serves unknown names.
    #[default]
    Unmarked,
    /// Clients that send no server name or an unknown one.
    Unknown,
    /// Clients that send no server name, and no others, even if they ask for one of its names.
    NoSni,
}

/// Source of a certificate.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// In memory.
    Loaded(Arc<Certificate>),
    /// Loaded when the first client needs it.
    Lazy(Arc<dyn LoadCertificate>),
}

/// Loads a certificate. Called on a thread that may block.
pub trait LoadCertificate: fmt::Debug + Send + Sync {
    /// Loads the certificate.
    ///
    /// # Errors
    /// Why it cannot be used; the implementation logs it.
    fn load(&self) -> Result<Certificate, CertificateError>;
}

impl CertificateSource {
    /// Identifies the source.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Loaded(certificate) => Arc::as_ptr(certificate).addr(),
            Self::Lazy(load) => Arc::as_ptr(load).cast::<()>().addr(),
        }
    }
}
