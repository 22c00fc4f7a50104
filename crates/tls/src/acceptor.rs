//! The entry point of a listener: one policy, one set of certificates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use boring::error::ErrorStack;
use boring::ssl::{Ssl, SslContext, SslRef};
use penstock_sys::ssl;

use crate::alpn::HttpVersions;
use crate::certificate_store::CertificateStore;
use crate::challenges::AnswerChallenges;
use crate::client_certificates::ClientCertificates;
use crate::context::{ContextError, base_context};
use crate::context_selector::ContextSelector;
use crate::early_data::EarlyDataPolicy;
use crate::offered_certificate::OfferedCertificate;
use crate::session_store::{self, SessionStorage};
use crate::settings::AcceptorSettings;
use crate::signing;

/// Performs the handshakes of a listener. Shared by all workers; only its certificates and ECH keys change.
pub struct Acceptor {
    context: SslContext,
    certificate_store: Arc<CertificateStore>,
    selector: Arc<ContextSelector>,
    /// Settings of contexts for QUIC, without certificates.
    quic_settings: AcceptorSettings,
    client_hello_bytes_max: usize,
    session_storage: Option<SessionStorage>,
    early_data: Option<EarlyDataPolicy>,
    client_certificates: Option<ClientCertificates>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Prepares everything that is the same for each handshake.
    ///
    /// # Errors
    /// No certificate, or a combination that the library refuses.
    pub fn new(settings: AcceptorSettings) -> Result<Self, ContextError> {
        // The first context has no certificate: the ClientHello decides which one follows.
        let mut entry = base_context(&settings)?;
        let client_hello_bytes_max = settings.client_hello_bytes_max;
        let session_storage = settings.session_storage.clone();
        let early_data = settings.early_data.clone();
        let client_certificates = settings.client_certificates.clone();
        let quic_settings = AcceptorSettings { certificates: Vec::new(), legacy: None, ..settings.clone() };
        let selector = Arc::new(ContextSelector::new(settings)?);
        let certificate_store = Arc::clone(selector.certificate_store());
        let selects = Arc::clone(&selector);
        entry.set_select_certificate_callback(move |hello| selects.select(hello));
        Ok(Self {
            context: entry.build(),
            certificate_store,
            selector,
            quic_settings,
            client_hello_bytes_max,
            session_storage,
            early_data,
            client_certificates,
        })
    }

    /// Replaces the certificates for new connections.
    ///
    /// # Errors
    /// No certificate, or one that the library refuses; the old ones then stay.
    pub fn replace_certificates(&self, certificates: Vec<OfferedCertificate>) -> Result<(), ContextError> {
        self.certificate_store.replace(certificates)
    }

    /// Answers challenges of a certificate authority (tls-alpn-01, RFC 8737) from now on.
    ///
    /// # Errors
    /// When the system has no space for the thread that loads answers.
    pub fn answer_challenges(&self, answers: Arc<dyn AnswerChallenges>) -> Result<(), ContextError> {
        self.certificate_store.answer_challenges(answers)
    }

    /// Number of lazily loaded certificates in memory.
    pub fn prepared_certificates(&self) -> usize {
        self.certificate_store.prepared()
    }

    /// The initial context of connections.
    pub(crate) fn context(&self) -> &SslContext {
        &self.context
    }

    /// The library's state of a new connection.
    pub(crate) fn new_connection(&self, versions: HttpVersions) -> Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        self.prepare(&mut ssl, versions);
        Ok(ssl)
    }

    /// Prepares the library's state of a new connection.
    pub(crate) fn prepare(&self, ssl: &mut SslRef, versions: HttpVersions) {
        ssl::attach_notes(ssl);
        if let Some(notes) = ssl::notes(ssl) {
            notes.set_protocols(versions.bits());
        }
        ssl::begin_client_hello(ssl, self.client_hello_bytes_max);
        signing::attach_progress(ssl);
        if self.session_storage.is_some() {
            session_store::attach_query(ssl);
        }
        ssl::shed_handshake_config(ssl);
    }

    pub(crate) fn selector(&self) -> Arc<ContextSelector> {
        Arc::clone(&self.selector)
    }

    pub(crate) fn quic_settings(&self) -> &AcceptorSettings {
        &self.quic_settings
    }

    /// The policy for early data.
    pub(crate) fn early_data(&self) -> Option<&EarlyDataPolicy> {
        self.early_data.as_ref()
    }

    /// The name in the client's certificate, if any.
    pub(crate) fn name_of_client(&self, connection: &SslRef) -> Option<String> {
        self.client_certificates.as_ref()?.name_of_client(connection)
    }

    /// How long a handshake waits for a session.
    pub(crate) fn lookup_deadline(&self) -> Duration {
        self.session_storage.as_ref().map_or(Duration::ZERO, |keeping| keeping.lookup_deadline)
    }
}
