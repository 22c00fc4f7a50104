//! Facts about connections and handshakes that callers hand over to be counted.

use std::time::Duration;

use crate::labels::{CertificateCompression, ClientKind, EncryptedHello, LabelSet, OTHER, StapleStatus};

/// The identity of a listener in the counters; [`Metrics::listener`](crate::Metrics::listener) assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub(crate) usize);

/// The identity of a site in the counters; [`Metrics::site`](crate::Metrics::site) assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteId(pub(crate) usize);

/// The identity of a rate in the counters; [`Metrics::rate`](crate::Metrics::rate) assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateId(pub(crate) usize);

/// The parameters that a successful handshake negotiated, as label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// The protocol version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite by its IANA name, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The key exchange group, such as `X25519MLKEM768`; `none` without a key exchange.
    pub group: &'static str,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// The kind of key that signed, such as `ecdsa`; `none` if a session was resumed.
    pub certificate: &'static str,
}

impl LabelSet for (ClientKind, HandshakeFacts) {
    const OTHER: Self = (ClientKind::Other, HandshakeFacts::OTHER);
}

impl LabelSet for HandshakeFacts {
    const OTHER: Self =
        Self { version: OTHER, cipher: OTHER, group: OTHER, resumed: false, certificate: OTHER };
}

/// Where the time of a handshake went. The parts do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Waiting for the client, for a session store outside this process, and for the worker.
    pub waiting: Duration,
    /// Waiting for a permit to sign.
    pub queued: Duration,
    /// Signing with the certificate's key.
    pub signing: Duration,
    /// Waiting for the signature of a key that is elsewhere; zero without one.
    pub signing_remote: Duration,
    /// The algorithm of the signature, or of the decryption that a suite without forward secrecy has instead; empty if a session
    /// was resumed.
    pub signature: &'static str,
    /// Computing the shared secret.
    pub key_exchange: Duration,
    /// Everything else: parsing, loading a certificate, key schedules, sealing.
    pub rest: Duration,
}

impl Timing {
    /// From the first step to the last.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.parts() + self.rest
    }

    /// Sets [`Self::rest`] to what the other parts leave of the total.
    #[must_use]
    pub fn finished(self, total: Duration) -> Self {
        Self { rest: total.saturating_sub(self.parts()), ..self }
    }

    /// What the worker spent: [`Self::total`] without what it waited for.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.signing + self.key_exchange + self.rest
    }

    fn parts(&self) -> Duration {
        self.waiting + self.queued + self.signing + self.signing_remote + self.key_exchange
    }
}

/// The outcome of the TLS extensions of a successful handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extensions {
    /// Whether the ClientHello was encrypted.
    pub encrypted_hello: EncryptedHello,
    /// Whether an OCSP response was sent with the certificate.
    pub staple: StapleStatus,
    /// How the certificate was compressed.
    pub compression: CertificateCompression,
}

/// Counts of the open-file memo and of the page-cache checks of one worker since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Files open now.
    pub open: u64,
    /// Lookups that found a fresh file.
    pub hits: u64,
    /// Lookups that opened the file.
    pub opened: u64,
    /// Lookups that checked an open file again.
    pub revalidated: u64,
    /// Lookups of a file that is known to be absent.
    pub missing: u64,
    /// Extents that were not in the page cache.
    pub page_cache_misses: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_handshake_add_up_to_the_whole() {
        let ms = Duration::from_millis;
        let timing = Timing {
            waiting: ms(80),
            queued: ms(10),
            signing: ms(2),
            key_exchange: ms(3),
            ..Timing::default()
        };
        assert_eq!(timing.finished(ms(100)).busy(), ms(10));
        assert_eq!((timing.finished(ms(100)).rest, timing.finished(ms(100)).total()), (ms(5), ms(100)));
        // Clocks read at different moments never make a part negative.
        assert_eq!(timing.finished(ms(94)).rest, Duration::ZERO);
    }
}
