//! One signature of a token: waiting for it, and making it on a thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use penstock_tls::SignatureKind;
use penstock_tls::remote_key::{RemoteKeyError, SignRequest};
use tokio::sync::oneshot;

use super::device::{TokenFault, TokenSession};
use super::keys::KeyState;
use super::{SessionEnd, TokenState};

/// A signature that a handshake waits for.
pub(super) struct Operation {
    pub(super) key: Arc<KeyState>,
    pub(super) kind: SignatureKind,
    pub(super) digest: Vec<u8>,
    /// What the signature is verified with; `None` if the other end does so.
    pub(super) request: Option<SignRequest>,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<Vec<u8>, RemoteKeyError>>,
    /// Whether another session has failed with it.
    pub(super) is_repeated: bool,
}

/// An operation that is counted as under way until it is dropped.
pub(super) struct Waiting {
    shared: Arc<TokenState>,
    begun: Instant,
    has_ended: bool,
}

impl Waiting {
    pub(super) fn begin(shared: &Arc<TokenState>, begun: Instant) -> Self {
        shared.counters.circuit.begun();
        shared.counters.under_way.fetch_add(1, Relaxed);
        Self { shared: Arc::clone(shared), begun, has_ended: false }
    }

    pub(super) fn ended(
        mut self,
        result: Result<Vec<u8>, RemoteKeyError>,
    ) -> Result<Vec<u8>, RemoteKeyError> {
        self.has_ended = true;
        let TokenState { counters, fallbacks, name, .. } = &*self.shared;
        counters.ended(result.as_ref().map(|_| self.begun.elapsed()).map_err(|error| *error));
        match &result {
            Ok(_) => {
                counters.circuit.succeeded();
                fallbacks.not_needed();
            }
            // They say something about a key or this program.
            Err(RemoteKeyError::Refused(_) | RemoteKeyError::Overloaded) => counters.circuit.ended(),
            Err(error) if counters.circuit.failed(Instant::now()) => {
                tracing::warn!("token `{name}` failed repeatedly; requests to it are reduced: {error}");
            }
            Err(_) => {}
        }
        result
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.counters.under_way.fetch_sub(1, Relaxed);
        if !self.has_ended {
            self.shared.counters.abandoned();
            self.shared.counters.circuit.ended();
        }
    }
}

impl Operation {
    pub(super) fn end(self, result: Result<Vec<u8>, RemoteKeyError>) {
        // The handshake may have ended meanwhile.
        drop(self.answer.send(result));
    }

    /// Whether nothing waits for it any more.
    pub(super) fn is_over(&self) -> bool {
        self.answer.is_closed() || Instant::now() >= self.deadline
    }

    /// Signs and answers. Returns the end of the session if that is lost, with the operation if another is to repeat it.
    pub(super) fn perform(mut self, session: &mut dyn TokenSession, token: &str) -> Option<SessionEnd> {
        if self.is_over() {
            return None;
        }
        let name = &self.key.name;
        let fault = match session.sign(name, self.kind, &self.digest) {
            Ok(signature) if self.verifies(&signature) => {
                self.end(Ok(signature));
                return None;
            }
            Ok(_) => {
                // Another key may have come in its place.
                session.forget(name);
                self.end(Err(RemoteKeyError::WrongSignature));
                return None;
            }
            Err(fault) => fault,
        };
        tracing::debug!("token `{token}`: private key `{name}`: {fault}");
        if !matches!(fault, TokenFault::Lost(_)) {
            session.forget(name);
            self.end(Err(fault.error()));
            return None;
        }
        if self.is_repeated {
            self.end(Err(fault.error()));
            return Some(SessionEnd::Lost(None));
        }
        self.is_repeated = true;
        Some(SessionEnd::Lost(Some(self)))
    }

    fn verifies(&self, signature: &[u8]) -> bool {
        let verifies =
            |request: &SignRequest| request.public.verifies(self.kind, &request.message, signature);
        self.request.as_ref().is_none_or(verifies)
    }
}
