//! The servers of a group, and limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use penstock_tls::Authorities;
use penstock_tls::certificate::Certificate;

/// Address of a keyserver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyserverAddress {
    /// A host name or an IP address, without brackets; its certificate must contain it.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for KeyserverAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Limits on operations of a group of keyservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyserverLimits {
    /// Time for one operation, the retry on another server included.
    pub deadline: Duration,
    /// Operations under way.
    pub operations: usize,
    /// Time to connect, with the TLS handshake and a first ping.
    pub connect: Duration,
    /// A connection on which nothing was received for this time is pinged, and closed after the same time again.
    pub ping: Duration,
    /// Pause before the first attempt to connect again. It doubles up to [`Self::reconnect_max`].
    pub reconnect_min: Duration,
    /// The longest such pause.
    pub reconnect_max: Duration,
    /// Failures one after the other, after which a server gets no operations for [`Self::circuit_open`].
    pub circuit_failures: u32,
    /// How long a server gets none; then one at a time, until one succeeds.
    pub circuit_open: Duration,
}

/// A group of keyservers that have the same keys.
#[derive(Clone, Debug)]
pub struct KeyserverGroup {
    /// The servers.
    pub servers: Vec<KeyserverAddress>,
    /// Authorities of their certificates.
    pub authorities: Authorities,
    /// The certificate shown to them.
    pub certificate: Arc<Certificate>,
    /// Limits on operations.
    pub limits: KeyserverLimits,
}
