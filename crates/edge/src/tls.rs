//! State of TLS that workers share: certificates, keys elsewhere, the choice of ciphers and of kernel TLS.

mod certificates;
mod chacha20;
mod challenges;
mod kernel_tls;
mod pressure;
mod remote_keys;
mod tls_state;

pub(crate) use certificates::{CertificateSet, Follower};
pub use chacha20::{ChaCha20Control, ChaCha20Status, UnknownMode};
pub(crate) use challenges::ChallengeAnswers;
pub use kernel_tls::measure_limits;
pub(crate) use kernel_tls::{KtlsSupport, KtlsUnavailable};
pub(crate) use pressure::{Observed, PressurePolicy};
pub(crate) use remote_keys::RemoteKeys;
pub use remote_keys::{RemoteKeyCheck, check_remote_keys};
pub(crate) use tls_state::TlsState;
