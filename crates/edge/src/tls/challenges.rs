//! Answers to challenges over TLS, in the storage of ordered certificates.

use std::sync::Arc;

use penstock_config::{Acme, AcmeChallenge};
use penstock_tls::AnswerChallenges;
use penstock_tls::certificate::Certificate;

/// The answers in the storage of orders.
#[derive(Debug)]
pub(crate) struct ChallengeAnswers(pub(crate) Arc<Acme>);

impl AnswerChallenges for ChallengeAnswers {
    fn covers(&self, name: &str) -> bool {
        self.0.challenge == AcmeChallenge::TlsAlpn01 && self.0.names.iter().any(|known| known == name)
    }

    fn load(&self, name: &str) -> Option<Certificate> {
        let path = self.0.tls_answer(name);
        Certificate::load(&path, &path).ok()
    }
}
