//! Handshakes of a certificate authority that validates a name (tls-alpn-01, RFC 8737).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use boring::error::ErrorStack;
use boring::ssl::{AlpnError, SslContext, SslOptions, SslRef, SslVerifyMode};
use penstock_sys::lock::Unpoisoned;
use penstock_sys::ssl;

use crate::certificate::Certificate;
use crate::compression::CompressedMessages;
use crate::context::{ContextError, with_certificate};
use crate::load_signal::LoadSignal;
use crate::settings::AcceptorSettings;

/// The protocol that such a client offers, and no other (RFC 8737 section 4).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The extension with that offer, as in a ClientHello: the length of the list, then the name after its length.
const OFFER: &[u8] = b"\x00\x0b\x0aacme-tls/1";

/// How long a loaded answer is used: an authority asks from several places at once.
const USED_FOR: Duration = Duration::from_secs(2);

/// Finds the certificates that answer challenges.
pub trait AnswerChallenges: fmt::Debug + Send + Sync {
    /// Whether a challenge for this name can be under way. Does not block. The number of such names bounds what is kept.
    fn covers(&self, name: &str) -> bool;

    /// The certificate that answers the challenge for this name; `None` if none is under way. Called on a thread that may
    /// block.
    fn load(&self, name: &str) -> Option<Certificate>;
}

/// The answers of an acceptor.
pub(crate) struct Challenges {
    answers: Arc<dyn AnswerChallenges>,
    /// By name.
    kept: Mutex<HashMap<String, Kept>>,
}

/// An answer that is being loaded, or was.
enum Kept {
    Loading(LoadSignal),
    Loaded(Option<SslContext>, Instant),
}

/// What a handshake gets.
pub(crate) enum ChallengeContext {
    Ready(SslContext),
    /// Being loaded; look again after this signal.
    Pending(LoadSignal),
    /// To be loaded by [`Challenges::load`]; look again after this signal.
    Load(LoadSignal),
    None,
}

impl Challenges {
    pub(crate) fn new(answers: Arc<dyn AnswerChallenges>) -> Self {
        Self { answers, kept: Mutex::default() }
    }

    /// Whether a client that sends this extension asks for the answer to a challenge that can be under way.
    pub(crate) fn are_asked(&self, offered: Option<&[u8]>, name: &str) -> bool {
        offered == Some(OFFER) && self.answers.covers(name)
    }

    /// The context with the answer for a name.
    pub(crate) fn get(&self, name: &str) -> ChallengeContext {
        let mut kept = self.kept.lock().unpoisoned();
        match kept.get(name) {
            Some(Kept::Loading(signal)) => return ChallengeContext::Pending(signal.clone()),
            Some(Kept::Loaded(context, since)) if since.elapsed() < USED_FOR => {
                return context.clone().map_or(ChallengeContext::None, ChallengeContext::Ready);
            }
            Some(Kept::Loaded(..)) | None => {}
        }
        let signal = LoadSignal::new();
        kept.insert(name.to_owned(), Kept::Loading(signal.clone()));
        ChallengeContext::Load(signal)
    }

    /// Loads the answer for a name, and wakes the handshakes that wait for it.
    pub(crate) fn load(&self, name: &str, settings: &AcceptorSettings) {
        let context = self.answers.load(name).and_then(|certificate| context(settings, &certificate).ok());
        let loaded = Kept::Loaded(context, Instant::now());
        let before = self.kept.lock().unpoisoned().insert(name.to_owned(), loaded);
        if let Some(Kept::Loading(signal)) = before {
            signal.notify();
        }
    }
}

/// The context of an answer.
fn context(settings: &AcceptorSettings, certificate: &Certificate) -> Result<SslContext, ContextError> {
    let settings = AcceptorSettings { early_data: None, compressions: Vec::new(), ..settings.clone() };
    let mut builder = with_certificate(&settings, certificate, &Arc::new(CompressedMessages::new(0)))?;
    builder.set_alpn_select_callback(|_, offered| {
        // Only clients with this offer get the context.
        offered.get(1..).filter(|name| *name == ACME_TLS).ok_or(AlpnError::ALERT_FATAL)
    });
    Ok(builder.build())
}

/// Has a connection with the context of an answer ask for no client certificate and leave no session.
pub(crate) fn restrict(ssl: &mut SslRef) -> Result<(), ErrorStack> {
    ssl.set_verify(SslVerifyMode::NONE);
    ssl.set_options(SslOptions::NO_TICKET);
    // No session of another connection resumes here, nor one of this elsewhere.
    ssl::set_session_context(ssl, &penstock_sys::digest::sha256(&[ACME_TLS]))
}
